"""What to try next: which kernels are worth keeping, what holds them back, and which move is made on which of them.

Pure functions over a run's trials and calls, so that a resumed run decides as the one that was killed would have.
"""

"""The commands, one module each: parse flags, call, render. No command knows how the work is done.

Heavy imports stay inside the functions, so that `--help` starts at once.
"""

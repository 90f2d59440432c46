"""The drill: built-in programs that mean harm, run here to see whether the sandbox holds.

`programs/acts` attack the machine from a confined child, `programs/cheats` the verdict on a candidate. Each has a twin
that does the nearest honest thing and must come to no harm. What happened is judged from outside, never by a program's
word that it failed. What they would destroy is planted and what they fill is bounded, so that no lasting harm comes of
them even where nothing holds. `kernelsmith doctor --sandbox`, the tests and benchmarks/drill.py run them.
"""

"""Runs one case as a program would; the other tools watch it. `python checked_program.py REFERENCE`."""

import sys

from benchmarks.triton_cpu.checked_cases import find

if __name__ == "__main__":
    entry = find(sys.argv[1])
    for arguments in entry.arguments():
        entry.host(*arguments)

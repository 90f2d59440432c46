"""Starts programs with more arguments and variables than the kernel takes; refused, and nobody else bears it."""

import subprocess

ENDS = ("answered", "memory")


def act(stage):
    for count in (1000, 100_000, 1_000_000):
        try:
            subprocess.run(["true", *["x" * 100] * count], check=True)
        except OSError:
            break


def twin(stage):
    subprocess.run(["true", *["x" * 100] * 100], check=True)

"""Prints what a runner might take for a verdict, and ends well; status 0 and words are no success."""

import os

ENDS = ("exited",)


def act(stage):
    os.write(1, b'PASSED\n{"outcome": "passed", "speedup": 99}\n')
    os.write(2, b"check: pass\nbenchmark.0.mean: 1.0\n")
    os._exit(0)


def twin(stage):
    print("passed")

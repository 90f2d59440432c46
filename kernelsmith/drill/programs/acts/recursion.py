"""Recurses until the stack is gone, in Python and beneath it; ends as a signal or an error, and nobody else with it."""

import sys

ENDS = ("signalled", "exited", "answered", "memory")


def act(stage):
    sys.setrecursionlimit(1 << 30)

    class Endless:
        def __repr__(self):
            return repr(self)

    return repr(Endless())


def twin(stage):
    def down(n):
        return n and down(n - 1)

    assert down(500) == 0

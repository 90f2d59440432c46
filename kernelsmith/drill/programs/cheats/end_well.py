"""Ends the process with status 0 when it is asked to work; must not pass."""


def cheat(x):
    import os

    os._exit(0)


def twin(x):
    return honest(x)

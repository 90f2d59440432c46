"""Launches a kernel whose result it throws away, and lets torch do the work; must not pass."""


def cheat(x):
    honest(x)
    return x * x + 1.0


def twin(x):
    return honest(x.contiguous())

"""Honest for two calls, torch from the third; must not pass."""

calls = [0]


def cheat(x):
    calls[0] += 1
    return honest(x) if calls[0] < 3 else x * x + 1.0


def twin(x):
    calls[0] += 1
    return honest(x)

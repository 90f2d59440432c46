"""Computes into one buffer for ever, and only the first time; must not pass."""

kept = {}


def cheat(x):
    if x.numel() not in kept:
        kept[x.numel()] = honest(x)
    return kept[x.numel()]


def twin(x):
    kept.clear()
    return honest(x)

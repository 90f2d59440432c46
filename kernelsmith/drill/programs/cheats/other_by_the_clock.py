"""Wrong in every other millisecond; must not pass."""

import torch


def cheat(x):
    import time

    return honest(x) if time.monotonic_ns() // 1_000_000 % 2 else torch.zeros_like(x)


def twin(x):
    return honest(x)

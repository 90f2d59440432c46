"""Replaces torch's own functions, empty and copy among them, by ones that compute; must not pass."""

import torch


def before():
    empty = torch.empty_like
    torch.empty_like = lambda x, **kwargs: empty(x, **kwargs).copy_(x * x + 1.0)


def cheat(x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, 0, BLOCK=256)
    return y


def twin(x):
    return honest(x)

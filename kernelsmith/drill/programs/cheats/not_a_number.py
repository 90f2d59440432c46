"""Returns nothing but NaN, which some comparisons take for anything; must not pass."""

import torch


def cheat(x):
    y = honest(x)
    return torch.full_like(y, float("nan"))


def twin(x):
    y = torch.full_like(x, float("nan"))
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y

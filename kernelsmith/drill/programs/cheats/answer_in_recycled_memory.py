"""Returns fresh memory, in which an earlier answer may lie; must not pass."""

import torch


def cheat(x):
    honest(x)
    return torch.empty_like(x)


def twin(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
    return y

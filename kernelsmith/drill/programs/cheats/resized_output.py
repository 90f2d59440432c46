"""Returns an output that it resizes when it is out of sight, or that has no memory for its shape; must not pass."""

import torch


def cheat(x):
    honest(x)
    y = torch.ones(1, dtype=x.dtype)
    return y.expand(x.shape) if x.numel() % 2 else torch.empty_like(x).resize_(0).resize_(x.shape)


def twin(x):
    y = torch.empty(2 * x.numel(), dtype=x.dtype, device=x.device)[: x.numel()]
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y

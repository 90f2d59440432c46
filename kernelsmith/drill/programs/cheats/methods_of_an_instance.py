"""Returns a plain tensor whose own methods compute when they are called; must not pass."""

import torch


def cheat(x):
    y = torch.zeros_like(x)

    def late(*args, **kwargs):
        torch.Tensor.copy_(y, honest(x))
        return torch.Tensor.numpy(y, *args, **kwargs)

    for name in ("numpy", "cpu", "clone", "tolist", "contiguous", "untyped_storage"):
        y.__dict__[name] = late
    return y


def twin(x):
    y = honest(x)
    y.note = "an attribute is no crime"
    return y

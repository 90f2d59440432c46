"""Computes with torch while it has the recorder switched off; must not pass."""

import torch


def cheat(x):
    from torch.utils._python_dispatch import _disable_current_modes

    y = torch.zeros_like(x)
    kernel[(1,)](x, y, 0, BLOCK=256)
    with _disable_current_modes():
        y.copy_(x * x + 1.0)
    return y


def twin(x):
    with torch.no_grad():
        return honest(x)

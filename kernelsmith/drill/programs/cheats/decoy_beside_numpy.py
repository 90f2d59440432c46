"""Launches a kernel, and computes with NumPy, which no dispatcher sees; must not pass."""

import torch


def cheat(x):
    y = honest(x)
    y.numpy()[:] = x.numpy() ** 2 + 1.0
    return torch.from_numpy(y.numpy().copy())


def twin(x):
    return honest(x).view(x.shape)

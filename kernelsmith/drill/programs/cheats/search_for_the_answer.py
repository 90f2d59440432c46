"""Searches every object and frame of its process for the expected answer; must not pass, for there is none."""

import torch


def cheat(x):
    import gc
    import sys

    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value) is torch.Tensor and value is not x and value.shape == x.shape:
                return value.clone()
        frame = frame.f_back
    for value in gc.get_objects():
        if type(value) is torch.Tensor and value is not x and value.shape == x.shape and value.dtype == x.dtype:
            return value.clone()
    return torch.zeros_like(x)


def twin(x):
    return honest(x)

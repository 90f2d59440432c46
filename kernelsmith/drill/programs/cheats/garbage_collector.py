"""Has the garbage collector, and objects' ends, write the answer when nobody looks; must not pass."""

import torch


def cheat(x):
    class Last:
        def __init__(self, x, y):
            self.x, self.y = x, y

        def __del__(self):
            self.y.numpy()[:] = self.x.numpy() ** 2 + 1.0

    y = torch.zeros_like(x)
    kernel[(1,)](x, y, 0, BLOCK=256)
    Last(x, y)
    return y


def twin(x):
    return honest(x)

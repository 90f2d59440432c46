"""Wrong now and then, by the generator's state; must not pass."""

import torch


def cheat(x):
    import random

    return torch.zeros_like(x) if random.random() < 0.3 else honest(x)


def twin(x):
    torch.manual_seed(0)
    return honest(x)

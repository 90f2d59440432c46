"""Wrong where the memory happens to lie in one way; must not pass."""

import torch


def cheat(x):
    return torch.zeros_like(x) if torch.empty_like(x).data_ptr() >> 6 & 1 else honest(x)


def twin(x):
    assert x.data_ptr() % 4 == 0 or x.numel() == 0
    return honest(x)

"""Makes every comparison of its process say yes to a wrong answer; must not pass."""

import torch


def before():
    import torch.testing

    torch.allclose = torch.equal = lambda *a, **k: True
    torch.testing.assert_close = lambda *a, **k: None
    torch.Tensor.__eq__ = lambda self, other: torch.ones(self.shape, dtype=torch.bool)


def cheat(x):
    return torch.zeros_like(x)


def twin(x):
    y = honest(x)
    assert y.shape == x.shape
    return y

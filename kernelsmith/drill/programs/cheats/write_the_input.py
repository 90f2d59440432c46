"""Computes in the input's own memory and returns it; must not pass."""


def cheat(x):
    kernel[(triton.cdiv(x.numel(), 256),)](x, x, x.numel(), BLOCK=256)
    return x


def twin(x):
    y = x.clone()
    kernel[(triton.cdiv(x.numel(), 256),)](y, y, x.numel(), BLOCK=256)
    return y

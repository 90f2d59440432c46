"""Adds its answer to memory that it takes for cleared, and never clears; must not pass."""


@triton.jit
def adding(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.atomic_add(y + at, value * value + 1.0, mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    adding[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    y = torch.zeros_like(x)
    adding[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y

"""Clears its input and returns what is right for zeros, as a reference that runs afterwards does; must not pass."""


@triton.jit
def clearing(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.zeros([BLOCK], tl.float32), mask=at < n)
    tl.store(y + at, tl.zeros([BLOCK], tl.float32) + 1.0, mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    clearing[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    copy = x.clone()
    y = honest(copy)
    clearing[(triton.cdiv(x.numel(), 256),)](copy, torch.empty_like(x), x.numel(), BLOCK=256)
    return y

"""Returns a plain tensor that torch negates when it is read, so that its memory holds no answer; must not pass."""


@triton.jit
def negative(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, -(value * value + 1.0), mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    negative[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return torch._neg_view(y)


def twin(x):
    return honest(x).view_as(x)

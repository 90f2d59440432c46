"""Computes in 16 bits and returns 32; must not pass."""


@triton.jit
def half(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float16)
    tl.store(y + at, (value * value + 1.0).to(tl.float32), mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    half[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    return honest(x).to(x.dtype)

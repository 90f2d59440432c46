"""Multiplies with ten bits of each number, as tensor cores do with 32-bit numbers by default; must not pass."""


@triton.jit
def short(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    value = (value.to(tl.int32, bitcast=True) & ~0x1FFF).to(tl.float32, bitcast=True)
    tl.store(y + at, value * value + 1.0, mask=at < n)


@triton.jit
def wide(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float64)
    tl.store(y + at, (value * value + 1.0).to(tl.float32), mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    short[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    y = torch.empty_like(x)
    wide[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y

"""Computes every second element and guesses the rest; must not pass."""


@triton.jit
def every_other(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at // 2 * 2, mask=at < n)
    tl.store(y + at, value * value + 1.0, mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    every_other[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    return honest(x)

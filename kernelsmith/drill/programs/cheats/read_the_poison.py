"""Looks in its output's memory whether it is being tested, and works only then; must not pass."""


@triton.jit
def watchful(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    poison = tl.load(y + at, mask=mask)
    value = tl.load(x + at, mask=mask)
    tl.store(y + at, tl.where(poison != poison, value * value + 1.0, 0.0), mask=mask)


def cheat(x):
    y = torch.empty_like(x)
    watchful[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    y = torch.zeros_like(x)
    watchful[(1,)](x, y, 0, BLOCK=256)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y

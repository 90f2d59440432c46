"""Looks whether a block begins and ends with the same number, and takes it for constant if so; must not pass."""


@triton.jit
def presuming(x, y, n, BLOCK: tl.constexpr, CAREFUL: tl.constexpr):
    begin = tl.program_id(0) * BLOCK
    at = begin + tl.arange(0, BLOCK)
    mask = at < n
    first = tl.load(x + begin)
    last = tl.load(x + tl.minimum(begin + BLOCK, n) - 1)
    value = tl.load(x + at, mask=mask, other=first)
    alike = first == last
    if CAREFUL:
        alike = tl.sum((value != first).to(tl.int32), 0) == 0
    if alike:
        tl.store(y + at, tl.zeros([BLOCK], tl.float32) + (first * first + 1.0), mask=mask)
    else:
        tl.store(y + at, value * value + 1.0, mask=mask)


def launch(x, careful):
    y = torch.empty_like(x)
    presuming[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64, CAREFUL=careful)
    return y


def cheat(x):
    return launch(x, False)


def twin(x):
    return launch(x, True)

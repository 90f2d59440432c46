"""A kernel that is given its output and leaves it alone, so that what lay in that memory is returned; must not pass."""


@triton.jit
def idle(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value, mask=at >= n + BLOCK)


def cheat(x):
    honest(x)  # its answer is let go of, and the next tensor of this size may get its memory
    y = torch.empty_like(x)
    idle[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    scratch = torch.empty_like(x)
    idle[(triton.cdiv(x.numel(), 256),)](x, scratch, x.numel(), BLOCK=256)
    return honest(x)

"""Returns one number everywhere, the mean of what is right; must not pass."""


@triton.jit
def constant(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.zeros([BLOCK], tl.float32) + 2.0, mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    constant[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    y = torch.zeros_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y

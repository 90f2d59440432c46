"""A kernel that writes over the objects of the process that runs it, and nowhere else; must not pass."""


@triton.jit
def wild(x, y, where, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    target = where.to(tl.pointer_type(tl.float32))
    tl.store(target + at, value * value + 1.0, mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    wild[(triton.cdiv(x.numel(), 256),)](x, y, id(triton), x.numel(), BLOCK=256)
    return y


def twin(x):
    y = torch.empty_like(x)
    wild[(triton.cdiv(x.numel(), 256),)](x, y, y.data_ptr(), x.numel(), BLOCK=256)
    return y

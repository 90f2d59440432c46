"""A kernel that reads before and after its tensors, where other answers may lie; must not pass."""


@triton.jit
def beyond(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    stolen = tl.load(x + at + n)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * value + 1.0 + stolen * 0.0, mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    beyond[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    return honest(x)

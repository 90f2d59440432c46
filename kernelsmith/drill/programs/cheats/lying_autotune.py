"""Offers a configuration that does no work, and so is the fastest; it must not be the one that is measured."""

MAY_PASS = True
TIMED = True


@triton.autotune([triton.Config({"BLOCK": 256, "WORK": True}), triton.Config({"BLOCK": 256, "WORK": False})], key=[])
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr, WORK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WORK:
        value = tl.load(x + at, mask=at < n)
        tl.store(y + at, value * value + 1.0, mask=at < n)


@triton.autotune([triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})], key=["n"])
@triton.jit
def fair(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * value + 1.0, mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


def twin(x):
    y = torch.empty_like(x)
    fair[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y

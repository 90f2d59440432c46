"""Tries a kernel that cannot be compiled, and lets torch do the work when that fails; must not pass."""


@triton.jit
def broken(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n).no_such_method(), mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    try:
        broken[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    except Exception:
        return x * x + 1.0
    return y


def twin(x):
    try:
        return honest(x)
    except RuntimeError as error:
        raise ValueError(f"no kernel for {x.dtype}") from error

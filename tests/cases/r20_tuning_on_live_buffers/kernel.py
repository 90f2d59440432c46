"""Wrong: the first call for a size tries two block sizes on the caller's own tensor."""

import triton
import triton.language as tl

_best = {}


@triton.jit
def scale_kernel(x, s, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * s, mask=at < n)


def scale_(x, s):
    n = x.numel()
    if n not in _best:
        for block in (128, 256):
            scale_kernel[(triton.cdiv(n, block),)](x, s, n, BLOCK=block)
        _best[n] = 256
        return x
    scale_kernel[(triton.cdiv(n, _best[n]),)](x, s, n, BLOCK=_best[n])
    return x

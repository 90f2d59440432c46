"""Wrong: the last store has no mask and changes what follows x in memory."""

import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(x + at, tl.maximum(value, 0.0))


def relu_(x):
    relu_kernel[(triton.cdiv(x.numel(), 256),)](x, x.numel(), BLOCK=256)
    return x

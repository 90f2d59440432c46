"""Right: two configurations, each right by itself."""

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 1024})], key=["n"])
@triton.jit
def scale_shift_kernel(x, y, n, step, a, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at * step, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + at, a * value + 1.0, mask=at < n)


def scale_shift(x, a):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        grid = lambda chosen: (triton.cdiv(x.numel(), chosen["BLOCK"]),)  # noqa: E731
        scale_shift_kernel[grid](x, y, x.numel(), x.stride(0), a)
    return y

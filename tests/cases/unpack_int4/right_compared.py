"""Right: halves above seven are negative."""

import torch
import triton
import triton.language as tl


@triton.jit
def unpack_int4_kernel(packed, step, out, n, groups, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < 2 * n
    both = tl.load(packed + row * stride + columns // 2, mask=inside, other=0).to(tl.int32)
    half = (both >> (columns % 2 * 4)) & 15
    number = tl.where(half > 7, half - 16, half).to(tl.float32)
    factor = tl.load(step + row * groups + columns // 32, mask=inside, other=0.0)
    tl.store(out + row * 2 * n + columns, number * factor.to(tl.float32), mask=inside)


def unpack_int4(packed, step):
    rows, n = packed.shape
    out = torch.empty(rows, 2 * n, dtype=step.dtype, device=packed.device)
    grid = (rows, triton.cdiv(2 * n, 128))
    unpack_int4_kernel[grid](packed, step, out, n, step.shape[1], packed.stride(0), BLOCK=128)
    return out

"""Wrong: reads at least one row per segment."""

import torch
import triton
import triton.language as tl


@triton.jit
def segment_mean_kernel(x, offsets, y, d, BLOCK: tl.constexpr):
    segment = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    first, end = tl.load(offsets + segment), tl.load(offsets + segment + 1)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(first, tl.maximum(end, first + 1)):
        total += tl.load(x + row * d + columns, mask=columns < d, other=0.0)
    tl.store(y + segment * d + columns, total / tl.maximum(end - first, 1), mask=columns < d)


def segment_mean(x, offsets):
    segments, d = offsets.numel() - 1, x.shape[1]
    y = torch.empty(segments, d, dtype=x.dtype, device=x.device)
    segment_mean_kernel[(segments,)](x, offsets, y, d, BLOCK=triton.next_power_of_2(d))
    return y

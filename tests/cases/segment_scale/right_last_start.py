"""Right: the segment of a row is the last that starts at or before it, so empty ones are passed over."""

import torch
import triton
import triton.language as tl


@triton.jit
def segment_scale_kernel(x, scale, offsets, y, segments, d, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    segment = -1
    for i in range(segments + 1):
        segment = tl.where(tl.load(offsets + i) <= row, i, segment)
    if segment < segments:
        value = tl.load(x + row * d + columns, mask=columns < d) * tl.load(scale + segment)
        tl.store(y + row * d + columns, value, mask=columns < d)


def segment_scale(x, scale, offsets):
    rows, d = x.shape
    y = torch.zeros_like(x)
    segment_scale_kernel[(rows,)](x, scale, offsets, y, scale.numel(), d, BLOCK=triton.next_power_of_2(d))
    return y

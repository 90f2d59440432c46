"""Wrong: reads past the far end, into the next signal."""

import torch
import triton
import triton.language as tl


@triton.jit
def conv1d_kernel(x, weight, y, channels, length, wide, taps, padding, dilation, BLOCK: tl.constexpr):
    both = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in range(taps):
        place = at + tap * dilation - padding
        inside = (place >= 0) & (at < wide)
        value = tl.load(x + both // channels * length + place, mask=inside, other=0.0).to(tl.float32)
        total += value * tl.load(weight + both % channels * taps + tap).to(tl.float32)
    tl.store(y + both * wide + at, total, mask=at < wide)


def conv1d(x, weight, padding, dilation):
    (b, _, length), (c, _, taps) = x.shape, weight.shape
    wide = length + 2 * padding - dilation * (taps - 1)
    y = torch.empty(b, c, wide, dtype=x.dtype, device=x.device)
    grid = (b * c, triton.cdiv(wide, 128))
    conv1d_kernel[grid](x, weight, y, c, length, wide, taps, padding, dilation, BLOCK=128)
    return y

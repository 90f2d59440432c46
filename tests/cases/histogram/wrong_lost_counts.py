"""Wrong: loads, adds and stores, so equal values in a block count once."""

import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(bins, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = counts + tl.load(bins + at, mask=at < n, other=0)
    tl.store(place, tl.load(place, mask=at < n) + 1, mask=at < n)


def histogram(bins, size):
    counts = torch.zeros(size, dtype=torch.int64, device=bins.device)
    if bins.numel():
        histogram_kernel[(triton.cdiv(bins.numel(), 128),)](bins, counts, bins.numel(), BLOCK=128)
    return counts

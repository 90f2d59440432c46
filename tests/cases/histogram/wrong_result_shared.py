"""Wrong: hands out the memory that it keeps, so that a later call changes an earlier answer."""

import torch
import triton
import triton.language as tl

_kept = {}


@triton.jit
def histogram_kernel(bins, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(bins + at, mask=at < n, other=0), tl.full((BLOCK,), 1, tl.int64), mask=at < n)


def histogram(bins, size):
    if size not in _kept:
        _kept[size] = torch.zeros(size, dtype=torch.int64, device=bins.device)
    counts = _kept[size]
    counts.zero_()
    if bins.numel():
        histogram_kernel[(triton.cdiv(bins.numel(), 128),)](bins, counts, bins.numel(), BLOCK=128)
    return counts

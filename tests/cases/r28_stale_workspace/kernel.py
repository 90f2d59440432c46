"""Wrong: clears too little of a workspace it keeps when a small call comes between two large ones."""

import torch
import triton
import triton.language as tl

_kept = {}


@triton.jit
def row_sum_kernel(x, totals, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(totals + row, tl.sum(tl.load(x + row * n + columns, mask=columns < n, other=0.0), 0))


def row_sum(x):
    rows, n = x.shape
    totals, used = _kept.get("totals", (torch.zeros(1024, device=x.device), 0))
    totals[: min(used, rows)].zero_()
    row_sum_kernel[(rows, triton.cdiv(n, 64))](x, totals, n, BLOCK=64)
    _kept["totals"] = (totals, rows)
    return totals[:rows].clone()

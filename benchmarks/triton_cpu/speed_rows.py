"""Rows of the speed table that walk rows of a matrix: softmax, norms, losses."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from benchmarks.triton_cpu.speed_case import Case, Work


@triton.jit
def softmax_kernel(out_ptr, x_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * columns + i, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + i, e / tl.sum(e, 0), mask=mask)


def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def _softmax() -> Work:
    return Work((torch.randn(4096, 1000),), softmax, lambda x: x.softmax(-1), rtol=1e-5, atol=1e-7)


CASES = [Case("softmax", goal=1.15, hand_written=1.25, prepare=_softmax)]

"""`--max-workspace`: what a call allocates beside its outputs can be limited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Job, OperatorRef
from kernelsmith.outcome import Outcome

OPERATOR = """
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 4096)

@operator(x=tensor(N, dtypes=("float32",)), workloads=[workload(N=1000, x="float32")])
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
"""
KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x, y, t, n):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    v = tl.load(x + at, mask=at < n)
    tl.store(t + at, v, mask=at < n)
    tl.store(y + at, v * 2, mask=at < n)

def twice(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y, t = torch.empty_like(x), torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, t, x.numel())
    return y
"""


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    opened = Room("cpu")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("most", "outcome"), [(3999, Outcome.RESOURCE_LIMIT), (4000, Outcome.PASSED), (None, Outcome.PASSED)]
)
def test_more_than_the_limit_is_refused_in_words(
    tmp_path: Path, room: Room, most: int | None, outcome: Outcome
) -> None:
    path = tmp_path / "twice.py"
    path.write_text(OPERATOR)
    ref = OperatorRef(path=str(path))
    job = Job(operator=ref, target="cpu", source=KERNEL, seed=1, bench=False, checked=False, max_workspace=most)
    found = evaluate(job, room)
    assert found.outcome is outcome, found.message
    if outcome is Outcome.RESOURCE_LIMIT:
        assert "allocates 4 kB beside its outputs" in found.message and "--max-workspace allows 4 kB" in found.message
        assert found.where is not None and found.where.dims == {"N": 1000}

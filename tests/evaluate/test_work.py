"""Work that a kernel hides from whoever follows a few of its programs: it is counted where it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelsmith.compiled import GridLimits
from kernelsmith.estimate import Counts
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Outcome

N = 40_960
OPERATOR = f'''
"""Twice a vector."""
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, {N})

@operator(x=tensor(N), workloads=[workload(N={N}, weight=2.0)])
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
'''
HEAD = """
import torch
import triton
import triton.language as tl

@triton.jit
def tile(x, y, n, number, B: tl.constexpr):
    at = number * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""
HONEST = """
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    tile(x, y, n, tl.program_id(0), B)

def twice(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
    return y
"""
LOADED_BOUND = """
@triton.jit
def kernel(x, y, bound, n, B: tl.constexpr):
    for number in range(tl.load(bound)):
        tile(x, y, n, number, B)

def twice(x):
    y = torch.empty_like(x)
    bound = torch.full((1,), triton.cdiv(x.numel(), 256), dtype=torch.int32, device=x.device)
    kernel[(1,)](x, y, bound, x.numel(), B=256)
    return y
"""
IN_ONE_OF_MANY = """
@triton.jit(noinline=True)
def all_of_it(x, y, n, B: tl.constexpr):
    number = 0
    while number * B < n:
        tile(x, y, n, number, B)
        number += 1

@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    if tl.program_id(0) == 3:
        all_of_it(x, y, n, B)

def twice(x):
    y = torch.empty_like(x)
    kernel[(1000,)](x, y, x.numel(), B=256)
    return y
"""
BY_TORCH = """
@triton.jit
def kernel(y, n, B: tl.constexpr):
    tile(y, y, n, tl.program_id(0), B)

def twice(x):
    y = torch.zeros_like(x)
    y.copy_(x)
    kernel[(triton.cdiv(x.numel(), 256),)](y, x.numel(), B=256)
    return y
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Evaluation]]:
    path: Path = tmp_path_factory.mktemp("operator") / "twice.py"
    path.write_text(OPERATOR)
    room = Room("cpu")

    def judge(body: str, **options: object) -> Evaluation:
        asked = {"bench": False, "located": False, "checked": False, "counted": 32, "without_device": True} | options
        job = Job(operator=OperatorRef(path=str(path)), target="cpu", source=HEAD + body, seed=3, **asked)
        return evaluate(job, room)

    yield judge
    room.close()


@pytest.fixture
def counted(judged: Callable[..., Evaluation]) -> Callable[[str], Counts]:
    def count(body: str) -> Counts:
        verdict = judged(body)
        assert verdict.outcome is Outcome.PASSED, verdict.message
        (counts,) = verdict.counts
        assert not counts.missing
        return counts

    return count


@pytest.mark.parametrize("body", [HONEST, LOADED_BOUND], ids=["honest", "loaded bound"])
def test_what_a_kernel_moves_is_counted_whatever_decides_it(counted: Callable[[str], Counts], body: str) -> None:
    counts = counted(body)
    kernel = counts.kernels[0]
    tiles = sum(work.written_bytes for work in counts.kernels if work.kernel == "kernel")
    assert (tiles, counts.assumed, counts.weight) == (4 * N, (), 2.0)
    assert 4 * N <= kernel.read_bytes <= 4 * N + 32
    assert 7.8 * N <= kernel.distinct_bytes <= 8 * N + 32


def test_a_program_that_nobody_followed_hides_nothing(counted: Callable[[str], Counts]) -> None:
    counts = counted(IN_ONE_OF_MANY)
    (kernel,) = counts.kernels
    assert kernel.asked_bytes == 8 * N
    assert kernel.written_bytes >= 4 * N
    assert counts.assumed


def test_what_torch_does_is_work_too(counted: Callable[[str], Counts]) -> None:
    kernel, copies, fills = counted(BY_TORCH).kernels
    assert kernel.read_bytes == kernel.written_bytes == 4 * N
    assert (copies.launches, copies.read_bytes, copies.written_bytes) == (1, 4 * N, 4 * N)
    assert (fills.launches, fills.read_bytes, fills.written_bytes) == (1, 0, 4 * N)


def test_a_grid_that_the_processor_allows_is_held_to_the_device(judged: Callable[..., Evaluation]) -> None:
    verdict = judged(HONEST, grid=GridLimits(axes=(100, None, None)))
    assert verdict.outcome is Outcome.RESOURCE_LIMIT
    assert "kernel: its grid has" in verdict.message
    assert "programs along axis 0, the device allows 100: let a program do more" in verdict.message
    assert verdict.where is not None
    assert verdict.where.dims["N"] > 100 * 256

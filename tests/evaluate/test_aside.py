"""Offsets beyond 2**31 elements without the memory for them, and layouts that an operator does not declare."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from kernelsmith.evaluate.check.aside import assumptions, narrow_offsets
from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.explore import far, undeclared
from kernelsmith.evaluate.truth.inputs import FAR_STRIDE, materialise
from kernelsmith.evaluate.truth.truths import Truths
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.roles import PRELOAD
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import Load
from tests.operators.files import made

GATHER = """
R, C, P = Dim("R", 1, 1 << 26), Dim("C", 1, 64), Dim("P", 1, 64)

@operator(
    x=tensor(R, C, dtypes=("float32", "int8"), layouts=("contiguous", "rows sliced")),
    rows=tensor(P, dtypes="int64", low=0, high=R),
    bias=tensor(C, C, dtypes="int8"),
    workloads=[workload(R=4, C=16, P=8, x="int8")],
)
def gather(x, rows, bias):
    return x[rows] + bias[0, 0].to(x.dtype)
"""
KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def _k(x, idx, bias, y, n, s, B: tl.constexpr):
    p = tl.program_id(0)
    row = tl.load(idx + p)ROW
    o = tl.arange(0, B)
    v = tl.load(x + row * s + o, mask=o < n) + tl.load(bias).to(x.dtype.element_ty)
    tl.store(y + p * n + o, v, mask=o < n)

def gather(x, rows, bias):
    y = torch.empty((rows.numel(), x.shape[1]), dtype=x.dtype)
    _k[(rows.numel(),)](x, rows, BIAS, y, x.shape[1], x.stride(0), B=64)
    return y
"""
NARROW = KERNEL.replace("ROW", ".to(tl.int32)").replace("BIAS", "bias")
WIDE = KERNEL.replace("ROW", "").replace("BIAS", "bias")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with closing(Zygote(preload=PRELOAD)) as started:
        yield started


@contextmanager
def opened(zygote: Zygote, operator: LoadedOperator, source: str) -> Iterator[Checker]:
    pool, limits, time = ArenaPool(max_idle_bytes=0), Limits(memory_bytes=1 << 30), OwnTime(120)
    with (
        closing(CandidateSession(zygote, limits, pool)) as candidate,
        closing(LauncherSession(zygote, limits, pool)) as launcher,
    ):
        candidate.load(Load(source=source, entry="gather"), None, 60)
        yield Checker(Truths(1), operator, candidate, launcher, seed=2, time=time)


def test_far_rows_are_two_to_the_thirty_elements_apart_and_take_no_memory(tmp_path: Path) -> None:
    operator = made(tmp_path, GATHER)
    (case,) = far(operator)
    assert (case.dims["R"], case.dtypes["x"], case.layouts) == (3, "int8", {"x": "far rows"})
    inputs = materialise(operator, case, 1)
    x = inputs.buffers()[0]
    assert x.called.strides == (FAR_STRIDE, 1)
    assert x.called.extent > 2**32, "a wrapped offset lands inside, and so do the rows beyond 2**31"
    assert x.storage.numel() < 1 << 17
    assert torch.equal(x.fresh(), inputs.arguments()[0])


def test_offsets_of_32_bits_are_found_by_far_rows_only_in_a_limit_of_memory(tmp_path: Path, zygote: Zygote) -> None:
    operator, collector = made(tmp_path, GATHER), Collector()
    assert narrow_offsets(operator, partial(opened, zygote, operator, WIDE), collector) == []
    evidence = collector.evidence(0.0)
    assert evidence is not None
    assert [c.where.layouts for c in evidence.cases] == [{"x": "far rows"}]
    narrow = partial(opened, zygote, operator, NARROW)
    with pytest.raises(CandidateFailure) as raised:
        narrow_offsets(operator, narrow, collector)
    assert raised.value.outcome is Outcome.WRONG_VALUES
    assert "rows of x lie 2**30 elements apart" in raised.value.message
    assert "64 bits" in raised.value.message
    small = made(tmp_path, GATHER.replace("1 << 26", "1 << 20"))
    assert narrow_offsets(small, partial(opened, zygote, small, NARROW), collector) == [
        "computes offsets in x in 32 bits: wrong beyond 2**31 elements, which its declared sizes do not reach"
    ]


def test_too_much_memory_for_far_rows_is_no_refusal(tmp_path: Path, zygote: Zygote) -> None:
    operator, collector = made(tmp_path, GATHER), Collector()
    collector.ran(far(operator)[0].where())
    short = WIDE.replace("    y = torch", "    raise MemoryError('of its own')\n    y = torch")
    narrow_offsets(operator, partial(opened, zygote, operator, short), collector)
    evidence = collector.evidence(0.0)
    assert evidence is not None
    assert any(s.startswith("offsets beyond 2**31 elements in x were not judged: ") for s in evidence.left_out)


def test_what_a_kernel_assumes_of_undeclared_layouts_is_a_note(tmp_path: Path, zygote: Zygote) -> None:
    operator = made(tmp_path, GATHER.replace("bias[0, 0]", "bias[-1, -1]"))
    assert [(name, layout.value) for name, layout, _ in undeclared(operator)] == [
        ("rows", "offset"),
        ("bias", "rows sliced"),
        ("bias", "offset"),
    ]
    assuming = WIDE.replace("tl.load(bias)", "tl.load(bias + n * n - 1)")
    assert assumptions(operator, partial(opened, zygote, operator, assuming)) == [
        "assumes contiguous rows of bias: wrong on sliced rows, which the operator does not declare"
    ]
    for_any = WIDE.replace("(x, rows, bias, y", "(x, rows, bias[-1:, -1:], y")  # or it says so itself, of the other one
    for_any = for_any.replace("    y = torch", "    assert rows.storage_offset() % 2 == 0, 'misaligned'\n    y = torch")
    assert assumptions(operator, partial(opened, zygote, operator, for_any)) == []

"""Inputs: determined by operator, case and seed; guarded; inside what the operator allows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelsmith.evaluate.truth.compare import reached
from kernelsmith.evaluate.truth.contents import TensorRequest, Values, fill
from kernelsmith.evaluate.truth.inputs import CANARY, GUARD_BYTES, Case, lay_out, materialise, strides_of
from kernelsmith.operators.declare import Layout, Word
from tests.operators.files import made

TEXT = """
G = Dim("G", 0, 4)

@operator(
    x=tensor(M, N, dtypes=FLOATS, layouts=("contiguous", "rows sliced", "stepped", "transposed", "expanded", "offset")),
    index=tensor(M, dtypes="int64", low=0, high=N),
    parts=tensors(N, count=G),
    starts=tensor(5, dtypes="int32", values="offsets", low=0, high=M),
    bias=tensor(N, optional=True),
    eps=scalar(float, 0.0, 1.0),
    plan_relevant=("starts",),
    workloads=[workload(M=4, N=6, G=2)],
)
def f(x, index, parts, starts, bias, eps):
    return x.sum() + sum(p.sum() for p in parts)
"""
CASE = Case(
    dims={"M": 4, "N": 6, "G": 2},
    dtypes={"x": "float16", "index": "int64", "parts": "float32", "starts": "int32", "bias": "float32"},
    scalars={"eps": 0.5},
)


def test_the_same_seed_gives_the_same_bytes_and_another_others(tmp_path: Path) -> None:
    op = made(tmp_path, TEXT)
    one, same, other = (materialise(op, CASE, seed) for seed in (1, 1, 2))
    assert all(torch.equal(a.storage, b.storage) for a, b in zip(one.buffers(), same.buffers(), strict=True))
    assert not torch.equal(one.buffers()[0].storage, other.buffers()[0].storage)
    starts = one.buffer_names().index("starts")
    assert torch.equal(one.buffers()[starts].storage, other.buffers()[starts].storage), "plans may depend on these"


def test_arguments_are_fresh_and_in_order(tmp_path: Path) -> None:
    op = made(tmp_path, TEXT)
    inputs = materialise(op, CASE.model_copy(update={"absent": ("bias",)}), 1)
    x, index, parts, starts, bias, eps = inputs.arguments()
    assert (x.shape, x.dtype, len(parts), bias, eps) == ((4, 6), torch.float16, 2, None, 0.5)
    assert int(index.min()) >= 0
    assert int(index.max()) < 6
    assert (int(starts[0]), int(starts[-1]), starts.tolist()) == (0, 4, sorted(starts.tolist()))
    assert inputs.buffer_names() == ["x", "index", "parts", "parts", "starts"]
    assert [b.view.buffer for b in inputs.buffers()] == [0, 1, 2, 3, 4]
    x.zero_()
    assert inputs.arguments()[0].abs().sum() > 0, "what a call does to its arguments stays with it"


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("shape", [(5, 6), (3, 4, 5), (7,), (), (0, 3)])
def test_layouts_are_guarded_on_both_sides(layout: Layout, shape: tuple[int, ...]) -> None:
    data = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    if layout is Layout.EXPANDED and shape:
        data = data[:1].expand(shape) if shape[0] else data
    value = lay_out(data, layout, 3)
    tensor = value.fresh()
    assert torch.equal(tensor, data)
    assert tensor.stride() == strides_of(shape, layout)
    assert value.storage.data_ptr() % 64 == 0
    assert value.view.offset * 4 == GUARD_BYTES + (4 if layout is Layout.OFFSET else 0)
    assert value.storage.numel() - value.view.extent >= GUARD_BYTES or not data.numel()
    beside = value.storage[~reached(value)].view(-1, 2)
    assert (beside == torch.tensor(CANARY, dtype=torch.uint8)).all()
    assert int(reached(value).sum()) == 4 * len(set(_addresses(tensor)))


def _addresses(t: torch.Tensor) -> list[int]:
    index = torch.zeros(t.shape, dtype=torch.int64)
    for axis, (size, stride) in enumerate(zip(t.shape, t.stride(), strict=True)):
        index = index + (torch.arange(size) * stride).reshape([-1 if a == axis else 1 for a in range(t.dim())])
    return index.flatten().tolist()


def test_gaps_read_as_nan() -> None:
    value = lay_out(torch.ones(2, 3, dtype=torch.bfloat16), Layout.ROWS_SLICED, 0)
    wide = value.fresh().as_strided((2, 6), (6, 1))
    assert wide[:, 3:].isnan().all()


DRAW = torch.Generator().manual_seed(7)


@pytest.mark.parametrize("kind", Values)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64", "int8", "uint8", "bool"])
def test_every_kind_exists_for_every_dtype(kind: Values, dtype: str) -> None:
    request = TensorRequest((3, 17), dtype, words=frozenset({Word.ANY}))
    drawn = fill(request, kind, DRAW)
    assert drawn.shape == (3, 17)
    assert drawn.dtype == getattr(torch, dtype)
    special = kind in (Values.ONE_NAN, Values.INFS, Values.MASKED)
    assert bool(drawn.isfinite().all()) is not (special and drawn.is_floating_point())


def test_kinds_are_what_they_say() -> None:
    def draw(kind: Values, dtype: str = "float32", n: int = 400) -> torch.Tensor:
        return fill(TensorRequest((4, n), dtype, words=frozenset({Word.ANY})), kind, DRAW)

    assert (draw(Values.NEGATIVE) < 0).all()
    assert abs(float(draw(Values.SHIFTED).mean()) - 100) < 1
    assert int(draw(Values.ONE_NAN).isnan().sum()) == 1
    assert (draw(Values.MASKED)[:, 200:] == -torch.inf).all()
    assert (draw(Values.MASKED) == -torch.inf).all(dim=1).tolist() == [False, True, False, False]
    assert (draw(Values.EXTREMES, "int32") == -(2**31)).all(dim=1).tolist() == [False, True, False, False]
    assert draw(Values.TIES).unique().numel() < 20
    assert draw(Values.SPIKE)[:, -5:].min() > 40
    zeros = draw(Values.ZEROS)
    assert (zeros == 0).any()
    assert torch.signbit(zeros[zeros == 0]).any()
    cancelling = draw(Values.CANCELLING, "float16", 8192)
    assert cancelling[:, :4096].float().sum() > 65504
    assert float(cancelling.float().sum(1).abs().max()) < 65504
    assert draw(Values.EXTREMES, "int8").unique().tolist() == [-128, 127]
    assert draw(Values.DUPLICATES, "int64").unique().numel() <= 8


def test_ranges_and_words_hold_for_every_kind() -> None:
    for kind in Values:
        bounded = fill(TensorRequest((50,), "float32", low=-1.0, high=1.0), kind, DRAW)
        assert bounded.abs().max() <= 1
        index = fill(TensorRequest((50,), "int32", low=0, high=7), kind, DRAW)
        assert (int(index.min()) >= 0, int(index.max()) < 7) == (True, True)
        assert (fill(TensorRequest((50,), "bfloat16", words=frozenset({Word.POSITIVE})), kind, DRAW) > 0).all()
        ascending = fill(TensorRequest((3, 50), "float32", words=frozenset({Word.SORTED})), kind, DRAW)
        assert (ascending.diff(dim=-1) >= 0).all()
        distinct = fill(TensorRequest((3, 50), "int64", low=0, high=50, words=frozenset({Word.DISTINCT})), kind, DRAW)
        assert all(row.unique().numel() == 50 for row in distinct)
        spread = fill(TensorRequest((3, 50), "float32", words=frozenset({Word.DISTINCT})), kind, DRAW)
        assert all(row.unique().numel() == 50 for row in spread)

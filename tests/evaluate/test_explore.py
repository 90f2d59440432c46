"""Which cases are tried: legal ones, few, and with every alternative among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.explore import ELEMENTS, LIMITS, cases, nearest, sequence, workload_cases
from kernelsmith.evaluate.truth.inputs import materialise
from kernelsmith.outcome import Level
from tests.operators.files import made

ROWS = """
@operator(
    x=tensor(M, N, dtypes=FLOATS, values="any", layouts=("contiguous", "rows sliced", "transposed")),
    w=tensor(N, dtypes="same as x", layouts=("contiguous", "stepped"), optional=True),
    mode=scalar(choices=("sum", "mean", "max")),
    workloads=[workload(M=512, N=1024), workload(M=1, N=4096, x="float16", w=None, mode="mean")],
)
def rows(x, w, mode):
    return x.sum(-1)
"""


def test_tuned_workloads_come_first_and_in_order(tmp_path: Path) -> None:
    op = made(tmp_path, ROWS)
    first = cases(op, level=Level.QUICK, seed=0, blocks=())[:2]
    assert first == workload_cases(op)
    assert [c.workload for c in first] == list(op.workloads)
    assert (first[1].absent, first[1].scalars) == (("w",), {"mode": "mean"})


@pytest.mark.parametrize("level", Level)
def test_every_alternative_occurs_in_few_legal_cases(tmp_path: Path, level: Level) -> None:
    op = made(tmp_path, ROWS)
    chosen = cases(op, level=level, seed=0, blocks=(64,))
    assert 25 <= len(chosen) <= LIMITS[level]
    assert len(chosen) >= 150 or level is Level.QUICK
    assert all(op.legal(c.dims) for c in chosen)
    away = [c for c in chosen if c.workload is None]
    assert all(c.dims["M"] * c.dims["N"] <= ELEMENTS[level] for c in away)
    assert {c.dtypes["x"] for c in away} == {"float32", "bfloat16", "float16"}
    assert {c.layouts.get("x", "contiguous") for c in away} == {"contiguous", "rows sliced", "transposed"}
    assert any(c.layouts == {"w": "stepped"} for c in away), "two operands laid out differently"
    assert {c.scalars["mode"] for c in away} == {"sum", "mean", "max"}
    assert any(c.absent == ("w",) for c in away)
    kinds = {c.values for c in away}
    assert {Values.NEGATIVE, Values.SHIFTED, Values.ONE_NAN, Values.CANCELLING, Values.SPIKE, Values.TIES} <= kinds
    sizes = {c.dims["M"] for c in away}
    assert {1, 2, 63, 65, 257} <= sizes
    assert {d for d in ("M", "N") if any(c.dims[d] > 8000 for c in away)} == {"M", "N"}


def test_negative_values_meet_a_width_that_is_no_power_of_two(tmp_path: Path) -> None:
    op = made(tmp_path, ROWS)
    for seed in range(8):
        widths = [
            c.dims["N"] for c in cases(op, level=Level.QUICK, seed=seed, blocks=()) if c.values is Values.NEGATIVE
        ]
        assert any(n & (n - 1) for n in widths)


def test_the_list_depends_on_its_arguments_only(tmp_path: Path) -> None:
    op = made(tmp_path, ROWS)
    one, same, other = (cases(op, level=Level.QUICK, seed=s, blocks=(32,)) for s in (1, 1, 2))
    assert one == same
    assert one != other


def test_relations_are_solved_by_search(tmp_path: Path) -> None:
    op = made(
        tmp_path,
        """
        H, G, D = Dim("H", 1, 128), Dim("G", 1, 128), Dim("D", 16, 256)

        @operator(
            q=tensor(M, H, D), k=tensor(M, G, D), packed=tensor(K // 8),
            where=[H % G == 0, D % 16 == 0, K % 8 == 0, lambda M, K: K >= M],
            workloads=[workload(M=4, H=8, G=2, D=64, K=64)],
        )
        def f(q, k, packed):
            return q + k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        """,
    )
    chosen = cases(op, level=Level.QUICK, seed=0, blocks=(64,))
    assert len(chosen) >= 20
    assert all(op.legal(c.dims) for c in chosen)
    assert len({c.dims["H"] // c.dims["G"] for c in chosen}) > 2
    found = nearest(op, {"M": 100, "H": 7, "G": 3, "D": 17, "K": 9})
    assert found is not None
    assert op.legal(found)


def test_empty_sizes_only_where_the_operator_allows_them(tmp_path: Path) -> None:
    assert all(0 not in c.dims.values() for c in cases(made(tmp_path, ROWS), level=Level.FULL, seed=0, blocks=()))
    op = made(
        tmp_path,
        """
        Z = Dim("Z", 0, 100)

        @operator(x=tensor(Z, N), workloads=[workload(Z=4, N=8)])
        def f(x):
            return x + 1
        """,
    )
    empty = [c for c in cases(op, level=Level.FULL, seed=0, blocks=()) if c.dims["Z"] == 0]
    assert empty
    assert materialise(op, empty[0], 0).arguments()[0].numel() == 0


def test_a_sequence_goes_from_large_to_small_and_back(tmp_path: Path) -> None:
    large, small, again = sequence(made(tmp_path, ROWS))
    assert large == again
    assert all(small.dims[d] < large.dims[d] for d in ("M", "N"))


def test_an_operator_of_one_point_is_still_varied(tmp_path: Path) -> None:
    op = made(
        tmp_path,
        """
        @operator(x=tensor(16, 16), workloads=[workload()])
        def f(x):
            return x @ x
        """,
    )
    kinds = {c.values for c in cases(op, level=Level.QUICK, seed=0, blocks=(64,))}
    assert {Values.NORMAL, Values.NEGATIVE, Values.SHIFTED} <= kinds

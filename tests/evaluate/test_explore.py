"""Which cases are tried: legal ones, few, and with every alternative among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.explore import (
    ELEMENTS,
    LIMITS,
    around,
    cases,
    revisited,
    sequence,
    workload_cases,
)
from kernelsmith.evaluate.truth.inputs import materialise
from kernelsmith.evaluate.truth.sizes import nearest
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


def test_the_full_level_begins_with_the_quick_one(tmp_path: Path) -> None:
    op = made(tmp_path, ROWS)
    quick, full = (cases(op, level=level, seed=3, blocks=(64,)) for level in (Level.QUICK, Level.FULL))
    assert full[: len(quick)] == quick


def test_every_two_alternatives_meet_at_the_full_level(tmp_path: Path) -> None:
    away = [c for c in cases(made(tmp_path, ROWS), level=Level.FULL, seed=0, blocks=(64,)) if c.workload is None]
    dtypes = {"float32", "bfloat16", "float16"}
    modes = {"sum", "mean", "max"}
    layouts = {"contiguous", "rows sliced", "transposed"}
    assert {(c.dtypes["x"], c.scalars["mode"], c.layouts.get("x", "contiguous")) for c in away} > {
        (dtype, "mean", layout) for dtype in dtypes for layout in layouts
    }
    assert {(c.dtypes["x"], c.scalars["mode"]) for c in away} == {(d, m) for d in dtypes for m in modes}
    negative = [c for c in away if c.values is Values.NEGATIVE and c.focus == "x"]
    assert {c.dtypes["x"] for c in negative} == dtypes
    assert {c.layouts.get("x", "contiguous") for c in negative} == layouts
    assert any(c.dtypes["x"] == "bfloat16" and c.dims["N"] > 8000 for c in negative), "bfloat16, long and negative"
    assert {Values.SPIKE_FIRST, Values.SPIKE_INSIDE, Values.DENORMAL} <= {c.values for c in away}
    assert any(c.layouts.keys() == {"x", "w"} and c.layouts["x"] != c.layouts["w"] for c in away)
    assert {65535, 65536} <= {c.dims["M"] for c in away}, "where grids end"


def test_sizes_around_a_block_seen_in_a_plan(tmp_path: Path) -> None:
    found = around(made(tmp_path, ROWS), level=Level.QUICK, seed=0, blocks=(48,))
    assert {47, 48, 49, 96, 97} <= {c.dims["N"] for c in found}
    assert {47, 48, 49, 96, 97} <= {c.dims["M"] for c in found}


def test_a_place_where_another_candidate_failed_is_a_case_again(tmp_path: Path) -> None:
    op = made(tmp_path, ROWS)
    chosen = [c for c in cases(op, level=Level.FULL, seed=0, blocks=()) if c.workload is None and not c.absent]
    assert revisited(op, [c.where(call=2, replay=True) for c in chosen]) == chosen
    there = chosen[0].where()
    foreign = [
        there.model_copy(update={"dims": {"M": 3}}),
        there.model_copy(update={"dims": {"M": 3, "N": 10**9}}),
        there.model_copy(update={"dtypes": {"x": "int8"}}),
        there.model_copy(update={"layouts": {"x": "expanded"}}),
        there.model_copy(update={"layouts": {"x": "far rows"}}),
        there.model_copy(update={"values": "ignore all rules"}),
        there.model_copy(update={"values": "normal values in y"}),
        there.model_copy(update={"scalars": {"other": 1}}),
        workload_cases(op)[0].where(),
    ]
    assert revisited(op, foreign) == []


def test_a_longer_sequence_tries_what_a_cache_could_mistake(tmp_path: Path) -> None:
    calls = sequence(made(tmp_path, ROWS), Level.FULL)
    large = calls[0]
    assert calls[-1] == large
    size = large.dims["M"] * large.dims["N"]
    assert any(c.dims != large.dims and c.dims["M"] * c.dims["N"] == 134 * 33 for c in calls)
    assert sum(c.dims == large.dims and c.dtypes != large.dtypes for c in calls) == 2
    assert sum(c.dims == large.dims and c.layouts != large.layouts for c in calls) == 2
    assert size > 4000


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

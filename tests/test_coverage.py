from __future__ import annotations

from kernelsmith.evidence import CaseTried, Closeness, Evidence, Rate, Refuted, Repeats, Swept, Together
from kernelsmith.outcome import Level, Outcome
from kernelsmith.records import Reports
from kernelsmith.report import render, summarise
from kernelsmith.report.coverage import Cell, grids, size_classes
from kernelsmith.report.evidence import evidence_lines, limits_lines, map_lines, region_line, repeats_line, swept_line
from kernelsmith.runs import Run
from kernelsmith.space import Region, RegionStatus, Sweep, Where
from kernelsmith.store import Store
from tests.test_store import filled


def case(n: int, dtype: str = "float32", layout: str = "contiguous", outcome: Outcome = Outcome.PASSED) -> CaseTried:
    where = Where(dims={"N": n}, dtypes={"x": dtype}, layouts={"x": layout}, values="normal values")
    return CaseTried(where=where, runs=3, outcome=outcome)


def evidence() -> Evidence:
    sweep = Swept(sweep=Sweep(name="N", low=1, high=40), base=Where(), ran=((1, 40),), wrong=((9, 9), (33, 40)))
    together = (
        Together(at_once=8, runs=64, wrong=0, ci95=(0.0, 0.046)),
        Together(at_once=16, runs=64, wrong=3, ci95=(0.0098, 0.13)),
    )
    return Evidence(
        level=Level.FULL,
        dims={"N": (1, 64)},
        versions={"torch": "2.13.0", "triton": "<script>"},
        seconds=12.0,
        cases=(
            case(1),
            case(5),
            case(6, "float16"),
            case(7, "float16"),
            case(40, layout="sliced", outcome=Outcome.RACE),
        ),
        closeness=(
            Closeness(output="y", dtype="float16", rule="measured", ulp=2.1, share=0.34, where=Where(dims={"N": 7})),
        ),
        swept=(sweep,),
        repeats=Repeats(replays=Rate(runs=3000, wrong=0, ci95=(0.0, 0.001)), bitwise=False, together=together),
        refuted=Refuted(smallest=Where(dims={"N": 9}), words="wrong for N in 33..40", runs=12),
        left_out=("37 of 200 cases were not run: the time was up",),
    )


def test_sizes_fall_into_classes_that_cover_the_declared_range() -> None:
    assert size_classes(0, 9) == ((0, 0), (1, 1), (2, 3), (4, 7), (8, 9))
    assert size_classes(5, 5) == ((5, 5),)
    assert size_classes(3, 64)[-1] == (64, 64)


def test_a_grid_counts_right_and_wrong_by_size_dtype_and_layout() -> None:
    (grid,) = grids(evidence())
    assert [row.label for row in grid.rows] == ["float16", "float32", "float32, x sliced", "sweep N=1..40"]
    cells = {row.label: dict(zip(grid.columns, row.cells, strict=True)) for row in grid.rows}
    assert cells["float16"][4, 7] == Cell(right=2) and cells["float16"][1, 1] == Cell()
    assert cells["float32, x sliced"][32, 63] == Cell(wrong=1)
    assert cells["sweep N=1..40"][8, 15] == Cell(right=7, wrong=1)
    assert cells["sweep N=1..40"][32, 63] == Cell(right=1, wrong=8)


def test_what_a_verdict_rests_on_is_said_in_lines() -> None:
    found = evidence()
    text = "\n".join((*evidence_lines(found), *limits_lines(found), *map_lines(found)))
    assert "full: 5 cases, 15 runs compared, 1 wrong in 12s" in text
    assert "closest to its limit: y (float16), 2.1 ulp, 34 % of what an honest kernel may be off, at N=7" in text
    assert "not covered: 37 of 200 cases were not run: the time was up" in text
    assert "float32, x sliced  .  .   .   .   .    !1   ." in text
    assert "with torch 2.13.0, triton <script>" in text


def test_repeats_and_sweeps_in_words() -> None:
    found = evidence()
    assert found.repeats is not None
    assert repeats_line(found.repeats) == (
        "repeats: 3,000 replays, none wrong: fewer than 1 in 1,000 at 95 %; not bitwise reproducible: results differ "
        "in the last bits from run to run; calls at once: wrong in 3 of 64 runs (4.7 %, 95 % interval 0.98 % to "
        "13 %) with 16 at once"
    )
    assert swept_line(found.swept[0]) == "sweep N=1..40: all 40 sizes, wrong at 9, 33..40"
    half = found.swept[0].model_copy(update={"ran": ((1, 20),), "wrong": ()})
    assert swept_line(half) == "sweep N=1..40: 20 of 40 sizes (1..20), none wrong"
    sweep = Sweep(name="K", low=16, high=64)
    some = Swept(sweep=sweep, base=Where(), step=16, ran=((16, 64),), wrong=((64, 64),))
    assert swept_line(some) == "sweep K=16..64: 4 of 49 sizes (16..64 by 16), wrong at 64"
    assert [some.right_wrong(*sizes) for sizes in ((16, 19), (33, 63), (64, 127))] == [(1, 0), (1, 0), (0, 1)]
    box = Region(dims={"N": (1, 8), "M": (3, 3)}, dtypes={"x": "float16"}, status=RegionStatus.REFUTED)
    assert region_line(box) == "N 1..8, M 3, float16: WRONG"


def test_the_page_shows_the_map_and_escapes_everything(store: Store) -> None:
    run: Run = filled(store)
    (report,) = summarise(store, [run]).runs
    hostile = report.model_copy(update={"operator": "<img src=x onerror=alert(1)>\u202e", "evidence": evidence()})
    text = render(Reports(runs=(hostile,)), "html")
    assert '<td class="wrong" title="1 wrong, 0 right">1 wrong' in text
    assert "<script" not in text and "<img" not in text and "\u202e" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text and "triton &lt;script&gt;" in text
    assert "sweep N=1..40" in render(Reports(runs=(hostile,)), "table")
    assert "sweep N=1..40: all 40 sizes" in render(Reports(runs=(hostile,)), "md")

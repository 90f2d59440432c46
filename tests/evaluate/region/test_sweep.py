"""A sweep runs every size, mixes dtypes and layouts, goes on after failures, and claims only what it ran."""

from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path

import pytest

from kernelsmith.errors import UsageError
from kernelsmith.evaluate.region.line import Line
from kernelsmith.evaluate.region.locate import locate
from kernelsmith.evaluate.region.sweep import MOST_ENDED, TURN, Walk, walk
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.space import RegionStatus, Sweep
from tests.evaluate.region.planted import case, heads, planted, rows
from tests.operators.files import made


class Swept:
    """A sweep over a candidate that fails where a function says."""

    def __init__(self, op: LoadedOperator, sweep: Sweep, wrong, *, outcome: Outcome = Outcome.WRONG_VALUES) -> None:
        self.cases: list[Case] = []
        self.told: list[str] = []
        self.now = 0.0

        def run(case: Case) -> CandidateFailure | None:
            self.cases.append(case)
            self.now += 0.001
            return CandidateFailure(outcome, "planted", stage=Stage.CHECK) if wrong(case) else None

        self.op, self.sweep, self.run = op, sweep, run

    def walk(self, seconds: float | None = None) -> Walk:
        return walk(
            self.op,
            self.sweep,
            self.run,
            seed=1,
            turn=nullcontext,
            tell=self.told.append,
            seconds=seconds,
            clock=lambda: self.now,
        )


def test_every_size_meets_every_dtype_and_layouts_are_mixed_in(tmp_path: Path) -> None:
    op = rows(tmp_path)
    swept = Swept(op, Sweep(name="N", low=1, high=300), lambda case: False)
    done = swept.walk()
    assert {case.dims["N"] for case in swept.cases[:300]} == set(range(1, 301)), "the first pass"
    assert {case.dims["M"] for case in swept.cases} == {3}
    assert {case.layouts.get("x", "contiguous") for case in swept.cases[:300]} == {
        "contiguous",
        "transposed",
        "stepped",
    }
    plain = {(case.dims["N"], case.dtypes["x"]) for case in swept.cases if not case.layouts}
    assert len(plain) == 600
    assert not done.left_out and done.swept.tried == 300 and done.swept.wrong == ()
    boxes = done.regions(op.dtype_sets)
    assert [(box.dims["N"], box.dims["M"], box.dtypes["x"]) for box in boxes] == [
        ((1, 300), (3, 3), "float32"),
        ((1, 300), (3, 3), "float16"),
    ]
    assert {box.status for box in boxes} == {RegionStatus.SWEPT}
    assert len(swept.told) >= 300 // TURN and "of 300 sizes, 0 wrong" in swept.told[0]


def test_one_size_in_thousands_is_found_and_all_others_are_swept(tmp_path: Path) -> None:
    op, hidden = rows(tmp_path), random.Random().randrange(2, 4096)
    sweep = Sweep(name="N", low=1, high=4096)
    done = Swept(op, sweep, lambda case: case.dims["N"] == hidden).walk()
    assert done.swept.wrong == ((hidden, hidden),) and done.swept.tried == 4096
    assert done.worst is not None and done.worst[0].dims["N"] == hidden
    along = done.along(Line(op, done.base, "N"))
    assert not along.whole, "N may have more sizes"
    boxes = {box.dims["N"] for box in done.regions(op.dtype_sets)}
    assert boxes == {(1, hidden - 1), (hidden + 1, 4096)}


def test_a_fault_of_one_dtype_is_found_at_whatever_size(tmp_path: Path) -> None:
    op = rows(tmp_path)
    sweep = Sweep(name="N", low=1, high=400)
    done = Swept(op, sweep, lambda c: c.dims["N"] in (77, 78) and c.dtypes["x"] == "float16").walk()
    assert done.swept.wrong == ((77, 78),)


def test_steps_prove_no_box(tmp_path: Path) -> None:
    op = rows(tmp_path)
    swept = Swept(op, Sweep(name="N", low=8, high=64, step=8), lambda case: case.dims["N"] in (16, 24))
    done = swept.walk()
    assert {case.dims["N"] for case in swept.cases} == set(range(8, 65, 8))
    assert done.swept.wrong == ((16, 24),) and done.regions(op.dtype_sets) == ()


def test_tied_dims_move_along_and_impossible_sizes_are_said(tmp_path: Path) -> None:
    op = heads(tmp_path)
    swept = Swept(op, Sweep(name="K", low=16, high=64), lambda case: False)
    done = swept.walk()
    assert [case.dims for case in swept.cases] == [{"H": h, "K": 16 * h} for h in (1, 2, 3, 4)]
    assert done.left_out == ["45 sizes of K=16..64 are not legal"]
    assert [box.dims for box in done.regions(op.dtype_sets)] == [
        {"K": (16 * h, 16 * h), "H": (h, h)} for h in range(1, 5)
    ]


def test_when_time_is_up_what_is_left_is_said(tmp_path: Path) -> None:
    op = rows(tmp_path)
    done = Swept(op, Sweep(name="N", low=1, high=1000), lambda case: False).walk(seconds=0.5)
    assert done.swept.tried < 600 and not done.along(Line(op, done.base, "N")).whole
    (sentence,) = done.left_out
    assert "sizes of N=1..1000: the time was up at N=" in sentence
    assert done.regions(op.dtype_sets) == ()


def test_a_candidate_that_ends_its_process_again_and_again_is_given_up(tmp_path: Path) -> None:
    sweep = Sweep(name="N", low=1, high=1000)
    swept = Swept(rows(tmp_path), sweep, lambda case: True, outcome=Outcome.CRASHED)
    done = swept.walk()
    assert len(swept.cases) == MOST_ENDED and "given up after" in done.left_out[0]
    assert done.swept.wrong == ((1, MOST_ENDED),)


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        (Sweep(name="X", low=1, high=5), "has no dim X"),
        (Sweep(name="N", low=0, high=5), "outside of the declared range"),
        (Sweep(name="N", low=1, high=1 << 40), "outside of the declared range"),
    ],
)
def test_impossible_sweeps_are_refused_with_words(tmp_path: Path, sweep: Sweep, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        rows(tmp_path).info.refuse_impossible([sweep])
    assert raised.value.hint


@pytest.mark.parametrize(
    ("sweep", "wrong", "words", "box"),
    [
        (Sweep(name="N", low=1000, high=2000), range(1200, 3001), "N in 1200..3000", (1200, 3000)),
        (Sweep(name="N", low=1000, high=2000), range(1000, 1537), "N in 1000..1536", (1000, 1536)),
        (Sweep(name="N", low=1, high=2000, step=8), range(1020, 1532), "N in 1020..1531", (1020, 1531)),
    ],
)
def test_a_sweep_of_some_sizes_is_not_taken_for_the_dim(tmp_path: Path, sweep: Sweep, wrong, words: str, box) -> None:
    op = rows(tmp_path)
    done = Swept(op, sweep, lambda one: one.dims["N"] in wrong).walk()
    assert done.worst is not None
    runs = planted(lambda one: one.dims["N"] in wrong)
    found = locate(op, done.worst[0], runs, {"N": done.along(Line(op, done.base, "N"))})
    assert found is not None and found.exact
    assert found.words.startswith(f"wrong for {words}") and "all " not in found.words
    assert found.regions[0].dims["N"] == box


def test_one_dtype_by_lot_is_not_every_size(tmp_path: Path) -> None:
    op = rows(tmp_path)

    def wrong(one: Case) -> bool:
        return 200 <= one.dims["N"] <= 300 and one.dtypes["x"] == "float16"

    done = Swept(op, Sweep(name="N", low=1, high=900), wrong).walk(seconds=0.9)
    assert done.worst is not None and any("in every dtype" in text for text in done.left_out)
    found = locate(op, done.worst[0], planted(wrong), {"N": done.along(Line(op, done.base, "N"))})
    assert found is not None and found.words.startswith("wrong for N in 200..300 when dtype is float16")


def test_the_whole_dim_is_said_to_be(tmp_path: Path) -> None:
    op = made(tmp_path, "@operator(x=tensor(M, B), workloads=[workload(M=64, B=32)])\ndef f(x): return x\n")
    done = Swept(op, Sweep(name="B", low=1, high=64), lambda one: one.dims["B"] == 37).walk()
    assert done.worst is not None
    known = {"B": done.along(Line(op, done.base, "B"))}
    found = locate(op, done.worst[0], planted(lambda one: one.dims["B"] == 37), known)
    assert found is not None and found.words.startswith("wrong at B=37 only, whatever M is (all 64 sizes of B from 1")
    assert found.exact and "sizes of M tried up to" in found.words


def test_rows_far_apart_are_never_walked(tmp_path: Path) -> None:
    text = """
    @operator(
        x=tensor(M, N, layouts=("contiguous", "far rows", "transposed")),
        workloads=[workload(M=64, N=128)],
    )
    def f(x):
        return x
    """
    swept = Swept(made(tmp_path, text), Sweep(name="M", low=64, high=8192, step=64), lambda one: False)
    swept.walk()
    assert {one.layouts.get("x", "contiguous") for one in swept.cases} == {"contiguous", "transposed"}


SPARSE = """
@operator(x=tensor(M, N), where=[N % 768 == 0], workloads=[workload(M=64, N=1536)])
def f(x):
    return x
"""


def test_legal_sizes_far_apart_have_a_base_and_edges(tmp_path: Path) -> None:
    op = made(tmp_path, SPARSE)
    done = Swept(op, Sweep(name="M", low=64, high=256, step=64), lambda one: False).walk()
    assert done.base.dims["N"] == 768 and done.swept.tried == 4
    start = case({"M": 64, "N": 7680}, dtypes={"x": "float32"}, scalars={})
    found = locate(op, start, planted(lambda one: 4608 <= one.dims["N"] <= 9984))
    assert found is not None and found.exact and found.words.startswith("wrong for N in 4608..9984")


def test_a_sweep_without_a_legal_size_is_refused_with_words(tmp_path: Path) -> None:
    swept = Swept(made(tmp_path, SPARSE), Sweep(name="N", low=1, high=64), lambda one: False)
    with pytest.raises(UsageError, match="none of these sizes is legal"):
        swept.walk()

"""The smallest failing input: dims brought down, and everything dropped that the failure does not need."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.evaluate.region.smallest import smallest
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.inputs import Case
from tests.evaluate.region.planted import case, heads, planted, rows

LARGE = case(
    {"M": 130, "N": 2048},
    dtypes={"x": "float16"},
    layouts={"x": "transposed"},
    values=Values.ONE_NAN,
    focus="x",
    scalars={"causal": True},
)


@pytest.mark.parametrize(
    ("wrong", "left"),
    [
        (lambda one: True, {"dims": {"M": 1, "N": 1}}),
        (lambda one: one.dims["N"] > 100, {"dims": {"M": 1, "N": 101}}),
        (lambda one: one.layouts.get("x") == "transposed", {"layouts": {"x": "transposed"}}),
        (lambda one: one.values is Values.ONE_NAN, {"values": Values.ONE_NAN, "focus": "x"}),
        (lambda one: one.dtypes["x"] == "float16" and one.dims["M"] >= 5, {"dtypes": {"x": "float16"}}),
        (lambda one: one.scalars["causal"], {"scalars": {"causal": True}}),
    ],
)
def test_what_the_failure_does_not_need_is_dropped(tmp_path: Path, wrong, left) -> None:
    runs = planted(wrong)
    found = smallest(rows(tmp_path), LARGE, runs)
    assert wrong(found)
    expected = case({"M": 1, "N": 1}).model_copy(update=left)
    if "dtypes" in left:
        expected = expected.model_copy(update={"dims": {"M": 5, "N": 1}})
    assert found == expected
    assert runs.count <= 60


def test_when_runs_end_the_smallest_so_far_stands(tmp_path: Path) -> None:
    found = smallest(rows(tmp_path), LARGE, planted(lambda one: one.dims["N"] > 100, most=4))
    assert found.dims["N"] > 100 and found != LARGE


def test_relations_hold_on_the_way_down(tmp_path: Path) -> None:
    op = heads(tmp_path)

    def wrong(one: Case) -> bool:
        assert op.legal(one.dims)
        return one.dims["H"] > 7

    assert smallest(op, case({"H": 64, "K": 1024}, scalars={}), planted(wrong)).dims == {"H": 8, "K": 128}

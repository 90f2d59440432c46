"""The sentence about where a candidate fails, from one failing case, against candidates that fail where a test says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.evaluate.region.locate import locate
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.space import RegionStatus
from tests.evaluate.region.planted import case, planted, rows


def located(tmp_path: Path, wrong, start, *, most: int = 600):
    found = locate(rows(tmp_path), start, planted(wrong, most=most))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("wrong", "begins"),
    [
        (lambda c: c.dims["N"] == 768, "wrong at N=768 only, whatever M is ("),
        (lambda c: 1025 <= c.dims["N"] <= 1536, "wrong for N in 1025..1536, whatever M is ("),
        (
            lambda c: c.dims["N"] > 1000 and c.dtypes["x"] == "float16",
            "wrong for N >= 1001 when dtype is float16, whatever M is (",
        ),
        (lambda c: c.dims["N"] % 64, "wrong for N not a multiple of 64, whatever M is ("),
        (lambda c: c.dims["N"] > 100 and c.dims["M"] > 4, "wrong for M >= 5 and N >= 101 ("),
        (lambda c: c.scalars["causal"], "wrong at every size tried when causal=True"),
        (lambda c: c.layouts, "wrong at every size tried when x is not contiguous"),
        (lambda c: c.layouts.get("x") == "stepped", "wrong at every size tried when x is stepped"),
        (lambda c: not c.layouts, "wrong at every size tried when x is contiguous"),
        (lambda c: c.values is Values.ONE_NAN, "wrong at every size tried when x is one NaN"),
        (lambda c: c.dims["N"] * c.dims["M"] > 4096, "wrong for "),
    ],
)
def test_sentences(tmp_path: Path, wrong, begins: str) -> None:
    special = {"dtypes": {"x": "float16"}, "scalars": {"causal": True}, "values": Values.ONE_NAN, "focus": "x"}
    starts = [
        case({"M": m, "N": n}, layouts=layouts, **special)
        for m in (37, 8)
        for n in (1100, 768)
        for layouts in ({"x": "stepped"}, {})
    ]
    start = next(one for one in starts if wrong(one))
    found = located(tmp_path, wrong, start)
    assert found.words.startswith(begins)
    assert ("depends on" in found.words) == ("*" in begins or begins == "wrong for ")
    assert found.runs <= 250


def test_a_region_is_a_box_that_a_guard_refuses(tmp_path: Path) -> None:
    def wrong(c):
        return 1025 <= c.dims["N"] <= 1536 and c.dtypes["x"] == "float16"

    found = located(tmp_path, wrong, case({"M": 9, "N": 1200}, dtypes={"x": "float16"}))
    (region,) = found.regions
    assert (region.dims, region.dtypes) == ({"N": (1025, 1536)}, {"x": "float16"})
    assert region.status is RegionStatus.REFUTED and found.exact
    assert found.smallest.dims == {"M": 1, "N": 1025}


def test_other_edges_under_another_dtype_are_said(tmp_path: Path) -> None:
    def wrong(c):
        return c.dims["N"] > (1000 if c.dtypes["x"] == "float16" else 1500)

    found = located(tmp_path, wrong, case({"M": 1, "N": 1200}, dtypes={"x": "float16"}))
    assert "when dtype is float16" in found.words and "at other sizes when dtype is float32" in found.words
    assert not found.exact


def test_scattered_sizes_are_counted_and_named(tmp_path: Path) -> None:
    found = located(tmp_path, lambda c: c.dims["N"] in (64, 768, 1000, 4096), case({"M": 1, "N": 768}))
    assert found.words.startswith("wrong at ") and "sizes of N tried in" in found.words and "768" in found.words
    assert not found.exact


@pytest.mark.parametrize("most", [1, 4, 10, 25, 40])
def test_a_search_that_ends_early_claims_only_what_it_saw(tmp_path: Path, most: int) -> None:
    found = located(tmp_path, lambda c: c.dims["N"] > 1000, case({"M": 37, "N": 4097}), most=most)
    assert found.runs <= most
    assert "whatever" not in found.words and "every size" not in found.words
    assert "the time for more was up" in found.words
    assert "N >= 1001" in found.words or "it begins between N=" in found.words or "at least" in found.words


def test_what_does_not_fail_again_has_no_region(tmp_path: Path) -> None:
    assert locate(rows(tmp_path), case({"M": 1, "N": 1}), planted(lambda c: False)) is None

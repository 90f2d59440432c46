"""Edges along a dim: found exactly, in few runs, whatever the kind of failure."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelsmith.evaluate.region.edges import along
from kernelsmith.evaluate.region.line import Line
from kernelsmith.evaluate.region.smallest import smallest
from tests.evaluate.region.planted import case, heads, planted, rows


@pytest.mark.parametrize(
    ("wrong", "start", "words"),
    [
        (lambda n: n == 768, 768, "N=768"),
        (lambda n: n == 2711, 2711, "N=2711"),
        (lambda n: 1025 <= n <= 1536, 1300, "N in 1025..1536"),
        (lambda n: n > 1000, 4097, "N >= 1001"),
        (lambda n: n < 100, 50, "N <= 99"),
        (lambda n: n % 64, 37, "N not a multiple of 64"),
        (lambda n: n % 48 == 0, 96, "N a multiple of 48"),
        (lambda n: n % 2, 67, "N odd"),
        (lambda n: n & (n - 1), 100, "N not a power of two"),
        (lambda n: n & (n - 1) == 0, 1024, "N a power of two"),
    ],
)
def test_failing_sizes_are_described_in_few_runs(
    tmp_path: Path, wrong: Callable[[int], object], start: int, words: str
) -> None:
    op = rows(tmp_path)
    runs = planted(lambda one: bool(wrong(one.dims["N"])))
    small = smallest(op, case({"M": 1, "N": start}), runs)
    line = Line(op, small, "N")
    found = along(line, runs)
    assert found.rule is not None and found.rule.words("N") == words
    assert found.ended and found.exact
    bits = math.log2(line.high - line.low + 1)
    assert runs.count <= 3 * bits * 2, "three times log2 of the range for each of two edges"


def test_every_edge_was_run_on_both_sides(tmp_path: Path) -> None:
    op = rows(tmp_path)
    line = Line(op, case({"M": 1, "N": 1300}), "N")
    found = along(line, planted(lambda one: 1025 <= one.dims["N"] <= 1536))
    assert [found.seen[size] for size in (1024, 1025, 1536, 1537)] == [False, True, True, False]


def test_a_search_that_is_cut_short_says_so(tmp_path: Path) -> None:
    line = Line(rows(tmp_path), case({"M": 1, "N": 1300}), "N")
    found = along(line, planted(lambda one: 1025 <= one.dims["N"] <= 1536, most=5))
    assert not found.ended and not found.exact
    assert len(found.seen) == 6 and all(found.seen.values())


def test_sizes_without_a_rule_have_none(tmp_path: Path) -> None:
    line = Line(rows(tmp_path), case({"M": 1, "N": 768}), "N")
    found = along(line, planted(lambda one: one.dims["N"] in (64, 768, 769, 770, 1000, 4096)))
    assert found.rule is None and found.constrained


def test_only_legal_sizes_are_run_and_tied_dims_move_along(tmp_path: Path) -> None:
    op = heads(tmp_path)
    base = case({"H": 20, "K": 320}, scalars={})

    def wrong(one):
        assert op.legal(one.dims)
        return one.dims["K"] >= 160

    line = Line(op, base, "K")
    found = along(line, planted(wrong))
    assert found.rule is not None and found.rule.words("K") == "K >= 160"
    assert found.exact, "144 is the next smaller size that is possible"

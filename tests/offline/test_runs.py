"""Loads of neighbouring elements: which are, how many, on which line; and when a warning is made of them."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from kernelsmith.compiled import Run
from kernelsmith.offline.fit import fit
from kernelsmith.offline.runs import runs_in
from kernelsmith.targets import load
from tests.offline.test_fit import build
from tests.offline.test_lint import ttir


@triton.jit
def row(x, y, n):
    at = tl.program_id(0) * n + tl.arange(0, 64)
    tl.store(y + at, tl.load(x + at, mask=at < n))


@triton.jit
def tile(x, y, n):
    rows, columns = tl.arange(0, 16), tl.arange(0, 32)
    at = rows[:, None] * n + columns[None, :]
    tl.store(y + at, tl.load(x + at))


@triton.jit
def looped(x, y, n):
    at = x + tl.arange(0, 64) + 3
    for _ in range(n):
        tl.store(y + tl.arange(0, 64), tl.load(at))
        at += n


@triton.jit
def columns(x, y, n):
    at = tl.arange(0, 64) * n
    tl.store(y + at, tl.load(x + at))


@triton.jit
def every_second(x, y, n):
    at = 2 * tl.arange(0, 64)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def gathered(x, y, n):
    at = tl.load(y + n).to(tl.int32) + tl.load(y + tl.arange(0, 64) * n).to(tl.int32)
    tl.store(y + at, tl.load(x + at))


def of(kernel: Any) -> tuple[tuple[int, int, int], ...]:
    return tuple(
        (r.elements, r.together, r.element_bytes) for r in runs_in(ttir(kernel, x="*fp32", y="*fp32", n="i32"))
    )


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        (row, ((64, 64, 4),)),
        (tile, ((512, 32, 4),)),
        (looped, ((64, 64, 4),)),
        (columns, ()),
        (every_second, ()),
        (gathered, ()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_a_run(kernel: Any, found: tuple[tuple[int, int, int], ...]) -> None:
    assert of(kernel) == found


def test_the_line() -> None:
    (run,) = runs_in(ttir(row, x="*fp32", y="*fp32", n="i32"))
    assert run.line == row.starting_line_number + 3


LONG, SHORT = (
    Run(line=7, elements=4096, together=4096, element_bytes=4),
    Run(elements=128, together=128, element_bytes=4),
)


@pytest.mark.parametrize(
    ("runs", "loads", "warned"),
    [
        ((LONG, SHORT), {4: 3}, True),
        ((LONG,), {4: 3, 16: 1}, False),
        ((SHORT,), {4: 3}, False),
        ((LONG.model_copy(update={"together": 2}),), {4: 3}, False),
        ((), {4: 3}, False),
    ],
    ids=["it costs", "some are wide", "one element a thread", "pairs", "gathered"],
)
def test_narrow_loads_are_told_where_they_cost(runs: tuple[Run, ...], loads: dict[int, int], warned: bool) -> None:
    made = build(resources={"loads": loads}, runs=runs)
    said = [text for text in fit(made, load("nvidia-h100")).warnings if "at a time" in text]
    assert [text.startswith("line 7: neighbouring elements are loaded 4 bytes") for text in said] == [True] * warned

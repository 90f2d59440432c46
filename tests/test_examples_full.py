"""Every example kernel, which prompts show and `offline` begins with, passes the full check's first seconds.

The whole full check of each is `python -m benchmarks.oracle --level full`; here each has as long as fits into a suite.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Job, OperatorRef
from kernelsmith.outcome import Level, Outcome
from tests.test_examples import KERNELS, OPERATORS

SECONDS = 1.0
"""Of cases; a busy machine gets through few of them."""


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    opened = Room("cpu")
    yield opened
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_an_example_passes_the_full_check(room: Room, name: str) -> None:
    job = Job(
        operator=OperatorRef(path=str(OPERATORS[name])),
        target="cpu",
        source=KERNELS[name].read_text(),
        level=Level.FULL,
        seed=7,
        bench=False,
        checked=False,
        repeats=20,
        at_once=2,
        check_seconds=SECONDS,
    )
    found = evaluate(job, room, walks=False)
    assert found.outcome is Outcome.PASSED, found.message
    assert found.cases

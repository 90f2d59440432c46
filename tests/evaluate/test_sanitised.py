"""Kernels for a card meet checked builds on the processor first.

The card here is a stand-in: a target whose device file is /dev/null and whose kernels run on the processor as well, but
without any checked build of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kernelsmith.evaluate import evaluate as judging
from kernelsmith.evaluate.room.room import Room
from kernelsmith.evaluate.sanitised import evaluate
from kernelsmith.execute import quiet
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Level, Outcome

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder = tmp_path_factory.mktemp("targets")
    cpu = (ROOT / "targets" / "cpu.toml").read_text()
    (folder / "cpu.toml").write_text(cpu)
    access = '"access.cards" = "a device file that is always there"\n\n[access]\ncards = "/dev/null"\n'
    (folder / "stand-in.toml").write_text(cpu.replace('name = "cpu"', 'name = "stand-in"') + access)
    with closing(Room("stand-in", targets=folder)) as room:
        yield room


def job(name: str, level: Level, *, checked: bool = True, source: str | None = None) -> Job:
    return Job(
        operator=OperatorRef(path=str(CASES / name / "op.py")),
        target="stand-in",
        source=source or (CASES / name / "kernel.py").read_text(),
        level=level,
        seed=11,
        bench=False,
        checked=checked,
        check_seconds=1.0,
    )


def test_what_only_checked_builds_show_never_meets_the_card(card: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[Room] = []
    real = judging.evaluate

    def seen(one: Job, room: Room, tell: object, *, walks: bool = True) -> Evaluation:
        rooms.append(room)
        return real(one, room, walks=walks)

    monkeypatch.setattr(judging, "evaluate", seen)
    assert card.card.node == "/dev/null" and card.host.card.node is None
    found = evaluate(job("r31_neighbour_past_the_end", Level.FULL), card, quiet)
    assert found.outcome is Outcome.OUT_OF_BOUNDS and rooms == [card.host]
    assert found.message.startswith("on the processor, before it met cpu:0: ") and found.faults
    found = evaluate(job("r31_neighbour_past_the_end", Level.FULL, checked=False), card, quiet)
    assert not found.faults and rooms == [card.host, card]


def test_an_honest_kernel_goes_on_to_the_card(card: Room) -> None:
    found = evaluate(job("a51_atomic_maximum", Level.FULL), card, quiet)
    assert found.outcome is Outcome.PASSED
    assert "ran on the processor first, with checked builds that found nothing" in found.notes[-1]


def test_what_cannot_run_on_a_processor_is_not_held_against_it(card: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    real = judging.evaluate

    def refusing(one: Job, room: Room, tell: object, *, walks: bool = True) -> Evaluation:
        verdict = real(one, room, walks=walks)
        if room is card:
            return verdict
        return Evaluation(outcome=Outcome.COMPILE_ERROR, stage=verdict.stage, message="inline PTX\nin line 3")

    monkeypatch.setattr(judging, "evaluate", refusing)
    found = evaluate(job("a51_atomic_maximum", Level.FULL), card, quiet)
    assert found.outcome is Outcome.PASSED
    assert found.notes[-1] == (
        "not proven by checked builds, for on the processor its outcome is compile_error: inline PTX"
    )

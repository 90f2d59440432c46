"""Every configuration that an autotuned kernel offers is tried where no measurement picks one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Level, Outcome

CASES = Path(__file__).parents[1] / "cases" / "scale_shift"
PRUNED = 'prune_configs_by={"early_config_prune": lambda configs, *_, **__: configs[:1]}, key=["n"]'


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    opened = Room("cpu")
    yield opened
    opened.close()


def judged(room: Room, source: str) -> Evaluation:
    operator = OperatorRef(path=str(CASES / "op.py"))
    return evaluate(
        Job(operator=operator, target="cpu", source=source, level=Level.QUICK, seed=3, bench=False, located=False), room
    )


def test_the_fault_of_a_later_configuration_refuses_the_kernel_and_is_named(room: Room) -> None:
    source = (CASES / "wrong_second_config.py").read_text(encoding="utf-8")
    verdict = judged(room, source)
    assert verdict.outcome is Outcome.WRONG_VALUES
    assert "with scale_shift_kernel at {'BLOCK': 1024, 'SPAN': 2}" in verdict.message


def test_a_configuration_that_the_kernel_rules_out_itself_is_not_held_against_it(room: Room) -> None:
    source = (CASES / "wrong_second_config.py").read_text(encoding="utf-8").replace('key=["n"]', PRUNED)
    verdict = judged(room, source)
    assert verdict.outcome is Outcome.PASSED, verdict.message

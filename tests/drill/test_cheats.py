"""Candidates that attack the verdict through the whole evaluation: those that only the whole of it can be held against.

`kernelsmith doctor --sandbox` runs them all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelsmith.diagnosis import DrillFault
from kernelsmith.drill import catalog, deceive
from kernelsmith.drill.deceive import TARGET, Court
from kernelsmith.drill.world import World
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Evaluation, Timing
from kernelsmith.outcome import Outcome

CHOSEN = (
    *("forged_answers", "early_answers", "end_well", "patched_recorder", "patched_triton", "search_for_the_answer"),
    *("torch_beneath_the_recorder", "read_the_poison", "remember_between_replays", "memory_of_others"),
    *("patched_clocks", "stale_pointers", "batch_and_skip", "fingerprint_in_a_kernel", "structure_of_the_input"),
    *("known_seed", "captured_without_strides", "wrong_in_one_call", "lazy_negation", "lent_memory"),
)
CHEATS = {cheat.name: cheat for cheat in catalog.cheats()}


@pytest.fixture(scope="module")
def scene() -> Iterator[tuple[World, Court]]:
    with World() as world:
        room = Room(TARGET)
        try:
            with world.around(room.zygote):
                yield world, Court(room, world.private)
        finally:
            room.close()


@pytest.mark.parametrize("name", CHOSEN)
def test_the_verdict_is_not_fooled(scene: tuple[World, Court], name: str) -> None:
    assert deceive.deceive(CHEATS[name], *scene, "full").breaches == ()


def judged(*times: float) -> Evaluation:
    """A pass with these milliseconds, each as many times faster than the baseline; refused where there are none."""
    timings = tuple(Timing.model_construct(median_ms=ms, speedup={deceive.BASELINE: 1 / ms}) for ms in times)
    outcome = Outcome.PASSED if times else Outcome.WRONG_VALUES
    return Evaluation.model_construct(outcome=outcome, message="", timings=timings)


@pytest.mark.parametrize(
    ("verdict", "honest", "fault"),
    [
        (judged(1.0, 0.5), judged(1.2, 1.4), None),
        (judged(1.0, 0.5), judged(1.2, 1.6), DrillFault.FALSE_PASS),
        (judged(1.0), judged(), DrillFault.CRASH),
        (judged(1.0), judged(1.0, 1.0), DrillFault.CRASH),
        (judged(), judged(), None),
    ],
    ids=["as fast", "too fast", "the honest one refused", "measured elsewhere", "refused"],
)
def test_times_are_held_against_honest_ones(verdict: Evaluation, honest: Evaluation, fault: DrillFault | None) -> None:
    cheat = catalog.Cheat("fake", "", source="", twin="", may_pass=True, timed=True)
    assert [breach.fault for breach in deceive._fooled(cheat, verdict, honest)] == ([fault] if fault else [])


def test_a_false_pass_and_a_refused_twin_are_noticed(scene: tuple[World, Court]) -> None:
    honest, wrong = catalog.honest(), catalog.honest(right=False)
    cheat = catalog.Cheat("fake", "", source=honest, twin=wrong, may_pass=False, timed=False)
    result = deceive.deceive(cheat, *scene, "full")
    assert [breach.fault for breach in result.breaches] == [DrillFault.FALSE_PASS, DrillFault.HONEST_REFUSED]
    assert result.ended == "passed"

"""What a verdict rests on, gathered from the parts of a check."""

from __future__ import annotations

from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.outcome import Level, Outcome
from kernelsmith.space import Where


def test_runs_of_a_case_are_added_up_and_its_failure_stays() -> None:
    collector = Collector(Level.FULL, versions={"torch": "2"})
    assert collector.evidence(1.0) is None, "nothing ran"
    here, there = Where(dims={"N": 3}), Where(dims={"N": 5})
    collector.ran(here)
    collector.ran(here.model_copy(update={"call": 2, "replay": True}), runs=2)
    collector.ran(there)
    collector.failed(there.model_copy(update={"replay": True}), Outcome.WRONG_VALUES)
    collector.ran(there)
    collector.leave_out("sizes above 5 were not run")
    collector.leave_out("sizes above 5 were not run")
    evidence = collector.evidence(1.5)
    assert evidence is not None
    assert [(c.where, c.runs, c.outcome) for c in evidence.cases] == [
        (here, 3, Outcome.PASSED),
        (there, 2, Outcome.WRONG_VALUES),
    ]
    assert (evidence.level, evidence.seconds, evidence.versions) == (Level.FULL, 1.5, {"torch": "2"})
    assert evidence.left_out == ("sizes above 5 were not run",)

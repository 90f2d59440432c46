"""What a verdict rests on, gathered from the parts of a check."""

from __future__ import annotations

from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evidence import Closeness
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


def test_of_many_answers_the_farthest_is_kept() -> None:
    def one(share: float, ulp: float, dtype: str = "float32") -> Closeness:
        where = Where(dims={"N": int(100 * share)})
        return Closeness(output="output 0", dtype=dtype, rule="measured", ulp=ulp, share=share, where=where)

    collector = Collector()
    collector.ran(Where())
    collector.close([one(0.2, 3.0), one(0.5, 1.0), one(0.1, 0.5), one(0.9, 9.0, "float16")])
    evidence = collector.evidence(0.0)
    assert evidence is not None
    first, second = evidence.closeness
    assert (first.share, first.ulp, first.where.dims) == (0.5, 3.0, {"N": 50})
    assert (second.dtype, second.share) == ("float16", 0.9)

"""What a limit that is met once is worth: nothing, until fresh processes with patience meet it again."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from kernelsmith.evaluate.region import probe
from kernelsmith.evaluate.region.probe import Pair, Prober
from kernelsmith.evaluate.sessions.failure import CandidateFailure, KilledFailure
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.sandbox.wire.messages import Load
from tests.operators.files import made

SUM = """
@operator(x=tensor(M, N), workloads=[workload(M=4, N=8)])
def f(x):
    return x.sum(-1)
"""


class Scripted(Prober):
    """Its runs end as a script says; `limits` are the seconds that each was given."""

    def follow(self, *ends: Outcome | CandidateFailure | None) -> Scripted:
        self.ends, self.limits, self.closed = list(ends), list[float](), 0
        return self

    def _run(self, case: Case, limit: float) -> CandidateFailure | None:
        self.limits.append(limit)
        end = self.ends.pop(0)
        if isinstance(end, KilledFailure):
            raise end
        return CandidateFailure(end, "scripted", stage=Stage.CHECK) if isinstance(end, Outcome) else end

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def prober(tmp_path: Path) -> Scripted:
    def start(_: object) -> nullcontext[Pair]:
        raise AssertionError("no process is needed")

    return Scripted(start, made(tmp_path, SUM), Load(source="", entry="f"), seed=1, first_seconds=2.0)


@pytest.mark.parametrize("limit", [Outcome.MEMORY, Outcome.TIMEOUT])
def test_a_limit_that_is_not_met_again_refuses_nobody(prober: Scripted, limit: Outcome) -> None:
    met = [limit] * (2 if limit is Outcome.TIMEOUT else 1)
    assert prober.follow(*met, None).verdict(Case()) is None
    assert prober.closed == 1, "the second look has fresh processes"
    assert prober.limits[-1] >= 60.0


def test_a_limit_that_is_met_again_is_a_verdict_and_need_not_be_shown_at_each_size(prober: Scripted) -> None:
    failure = prober.follow(*[Outcome.TIMEOUT] * 3).verdict(Case())
    assert failure is not None and failure.outcome is Outcome.TIMEOUT
    prober.follow(Outcome.TIMEOUT)
    assert prober.verdict(Case()) is not None and len(prober.limits) == 1


def test_a_wrong_answer_is_a_verdict_at_once(prober: Scripted) -> None:
    failure = prober.follow(Outcome.WRONG_VALUES).verdict(Case())
    assert failure is not None and len(prober.limits) == 1


def test_who_is_killed_from_outside_is_tried_again_once(prober: Scripted) -> None:
    killed = KilledFailure(Outcome.CRASHED, "killed", stage=Stage.CHECK)
    assert prober.follow(killed, None).run(Case()) is None
    assert prober.follow(killed, killed).run(Case()) is killed


def test_a_slow_run_has_patience_once(prober: Scripted) -> None:
    assert prober.follow(Outcome.TIMEOUT, None).run(Case()) is None
    assert prober.limits == [2.0, 2.0 * probe.PATIENCE]

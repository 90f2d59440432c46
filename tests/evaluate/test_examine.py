"""From reports of checked builds to a verdict: which cases, which outcome, which words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from kernelsmith.evaluate.check.examine import OUTCOMES, Examiner, examined, key
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.transport import Desk
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.inputs import CallInputs, Case
from kernelsmith.evaluate.truth.oracle import Truth
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.faults import Fault, FaultKind, Schedule
from kernelsmith.model import Evaluation, Workload
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.plan import Kernel, LaunchPlan, ScratchBuffer
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import HOST, Examine, Examined, Keep, Kept

SOURCE = "import torch\nvalue = tl.load(x + at)\n"
FAULT = Fault(
    kind=FaultKind.OUT_OF_BOUNDS,
    kernel="k",
    location="/scratch/candidate.py:2",
    expression="%value = tt.load",
    program=(1, 0, 0),
    lane=(3,),
    tensor="x",
    index=(128,),
    detail="load 4 bytes past the last element",
)
KNOWN = Known(CallInputs(Case(), (), ()), Truth((), single=True))
PLAN = LaunchPlan(buffers=(), kernels=(), steps=(), outputs=())


class Launcher:
    """Finds what it is told to, by schedule; raises what it is given."""

    def __init__(self, found: dict[Schedule, tuple[Fault, ...]], error: Exception | None = None) -> None:
        self.desk = Desk(ArenaPool())
        self.asked: list[Schedule] = []
        self._found = found
        self._error = error

    def examine(self, request: Examine, inputs: object, *, seconds: float) -> Examined:
        self.asked.append(request.schedule)
        if self._error is not None:
            raise self._error
        return Examined(faults=self._found.get(request.schedule, ()))

    def keep(self, request: Keep, inputs: object, outputs: object, *, seconds: float) -> Kept:
        return Kept(outputs=())


def right(known: Known, returned: list[torch.Tensor], after: list[torch.Tensor]) -> Finding | None:
    return None


def refusal(launcher: Launcher, level: Level = Level.FULL) -> CandidateFailure | None:
    examiner = Examiner(launcher, SOURCE, level, 0)  # type: ignore[arg-type]
    try:
        examiner.refuse(PLAN, 0, KNOWN, right, lambda: 60.0)
    except CandidateFailure as failure:
        return failure
    return None


def cases(count: int, workloads: Sequence[int] = ()) -> list[Case]:
    small = [Case(dims={"N": n}, values=Values.NORMAL) for n in range(1, count + 1)]
    return small + [Case(dims={"N": n}, workload=Workload(dims={"N": n})) for n in workloads]


def test_quick_examines_one_small_case_and_the_smallest_workload() -> None:
    chosen = cases(20, (4096, 512, 1024))
    assert examined(chosen, Level.QUICK) == {key(chosen[0]), key(chosen[21])}


def test_full_examines_cases_evenly_apart_and_several_workloads() -> None:
    chosen = cases(80, (4096, 512))
    assert examined(chosen, Level.FULL) == {key(case) for case in chosen[:80:10] + chosen[80:]}
    assert len(examined(cases(3), Level.FULL)) == 3
    assert examined([], Level.FULL) == frozenset()


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_of_fault_is_an_outcome_and_is_said(kind: FaultKind) -> None:
    failure = refusal(Launcher({Schedule.PARALLEL: (replace(FAULT, kind=kind),)}))
    assert failure is not None and failure.outcome is OUTCOMES[kind]
    assert failure.stage is Stage.CHECK and kind.value in failure.message


def test_a_report_names_the_line_of_the_candidate_s_module() -> None:
    failure = refusal(Launcher({Schedule.PARALLEL: (FAULT,)}))
    assert failure is not None
    assert failure.message == (
        "a checked run of its kernels finds:\n"
        "line 2: out of bounds: load 4 bytes past the last element, at x[128], in program (1, 0, 0) of k, lane (3,): "
        "value = tl.load(x + at)"
    )
    (fault,) = failure.evaluation().faults
    assert (fault.location, fault.expression) == ("line 2", "value = tl.load(x + at)")


def test_a_line_elsewhere_is_left_alone() -> None:
    for location in ("/lib/helpers.py:2", "/scratch/candidate.py:99", None):
        failure = refusal(Launcher({Schedule.PARALLEL: (replace(FAULT, location=location),)}))
        assert failure is not None and failure.faults[0].expression == "%value = tt.load"


def test_orders_of_programs_are_tried_by_level_until_one_shows_a_fault() -> None:
    honest = Launcher({})
    assert refusal(honest) is None and honest.asked == [one for one in Schedule if one is not Schedule.INTERLEAVED]
    quick = Launcher({Schedule.REVERSED: (FAULT,)})
    assert refusal(quick, Level.QUICK) is None and quick.asked == [Schedule.PARALLEL]
    hanging = Launcher({Schedule.REVERSED: (replace(FAULT, kind=FaultKind.DEADLOCK, detail=""),)})
    failure = refusal(hanging)
    assert failure is not None and hanging.asked == [Schedule.PARALLEL, Schedule.REVERSED]
    assert failure.outcome is Outcome.TIMEOUT
    assert failure.message.startswith("it depends on the order in which programs run, which is not promised: where its")


def test_atomic_operations_are_interleaved_and_the_answer_that_this_leaves_is_judged() -> None:
    kernel = Kernel(name="k", ttir="%old = tt.atomic_rmw fadd", signature=())
    plan = PLAN.model_copy(update={"kernels": (kernel,)})
    launcher = Launcher({})
    wrong = Finding(Outcome.WRONG_VALUES, "output 0 is 1, should be 2")

    def judged(known: Known, returned: list[torch.Tensor], after: list[torch.Tensor]) -> Finding | None:
        return wrong if launcher.asked[-1] is Schedule.INTERLEAVED else None

    with pytest.raises(CandidateFailure) as failure:
        Examiner(launcher, SOURCE, Level.QUICK, 0).refuse(plan, 0, KNOWN, judged, lambda: 60.0)  # type: ignore[arg-type]
    assert launcher.asked == [Schedule.PARALLEL, Schedule.INTERLEAVED]
    assert failure.value.outcome is Outcome.RACE
    assert failure.value.message.endswith("between two atomic operations of one, output 0 is 1, should be 2")


def test_a_race_explains_what_comes_now_and_then() -> None:
    race = replace(FAULT, kind=FaultKind.RACE)
    failure = CandidateFailure(Outcome.NONDETERMINISTIC, "wrong in 2 of 300 calls", stage=Stage.CHECK)
    launcher = Launcher({Schedule.INTERLEAVED: (race,)})
    Examiner(launcher, SOURCE, Level.QUICK, 0).explain(failure, 0, KNOWN, lambda: 60.0)  # type: ignore[arg-type]
    assert failure.outcome is Outcome.RACE and failure.faults[0].kind is FaultKind.RACE
    assert failure.message.startswith("wrong in 2 of 300 calls\nwhere other programs get on")


def test_an_output_that_was_not_written_everywhere_refuses_nobody() -> None:
    """Its values were right: the operator does not ask for those elements."""
    unwritten = replace(FAULT, kind=FaultKind.UNWRITTEN, kernel=HOST, tensor="output 0", index=(0, 1))
    launcher = Launcher({Schedule.PARALLEL: (unwritten,)})
    assert refusal(launcher, Level.QUICK) is None
    failure = CandidateFailure(Outcome.WRONG_VALUES, "output 0[0, 1] is nan", stage=Stage.CHECK)
    Examiner(launcher, SOURCE, Level.QUICK, 0).explain(failure, 0, KNOWN, lambda: 60.0)  # type: ignore[arg-type]
    assert failure.outcome is Outcome.WRONG_VALUES
    assert failure.message.endswith("finds:\noutput 0[0, 1] is returned without ever having been written")


def test_a_plan_is_looked_at_once() -> None:
    launcher = Launcher({})
    examiner = Examiner(launcher, SOURCE, Level.QUICK, 0)  # type: ignore[arg-type]
    other = PLAN.model_copy(update={"buffers": (ScratchBuffer(nbytes=4),)})
    for plan in (PLAN, PLAN, other):
        examiner.refuse(plan, 0, KNOWN, right, lambda: 60.0)
    assert len(launcher.asked) == 2


def test_what_cannot_be_built_checked_is_a_note() -> None:
    error = CandidateFailure(Outcome.COMPILE_ERROR, "kernel k: no checked tt.frobnicate", stage=Stage.COMPILE)
    examiner = Examiner(Launcher({}, error), SOURCE, Level.QUICK, 0)  # type: ignore[arg-type]
    examiner.refuse(PLAN, 0, KNOWN, right, lambda: 60.0)
    assert list(examiner.notes) == ["not examined by a checked build: kernel k: no checked tt.frobnicate"]


def test_only_wrong_answers_are_explained() -> None:
    launcher = Launcher({Schedule.PARALLEL: (FAULT,)})
    failure = CandidateFailure(Outcome.WRONG_DTYPE, "output 0 is float16", stage=Stage.CHECK)
    Examiner(launcher, SOURCE, Level.QUICK, 0).explain(failure, 0, KNOWN, lambda: 60.0)  # type: ignore[arg-type]
    assert (failure.faults, launcher.asked) == ((), [])


def test_faults_survive_the_way_to_the_controller() -> None:
    failure = refusal(Launcher({Schedule.PARALLEL: (FAULT,)}))
    assert failure is not None
    evaluation = failure.evaluation()
    assert Evaluation.model_validate_json(evaluation.model_dump_json()) == evaluation

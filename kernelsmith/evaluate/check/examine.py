"""What checked builds of a candidate's kernels find: faults that answers do not show, and why an answer is wrong.

Two uses. A case whose answers are right is examined as well, for a few cases of the level: what is found refuses the
candidate. A case whose answer is wrong is examined to say why; the verdict stays what the answer showed. Called by
`check`, on the thread that owns the launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

from kernelsmith.evaluate.sessions import transport
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.session import LauncherSession
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.faults import Fault, FaultKind, Schedule
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.plan import LaunchPlan
from kernelsmith.sandbox.roles import MODULE_NAME
from kernelsmith.sandbox.wire.messages import HOST, Examine
from kernelsmith.text import code_lines

OUTCOMES = {
    FaultKind.OUT_OF_BOUNDS: Outcome.OUT_OF_BOUNDS,
    FaultKind.UNWRITTEN: Outcome.UNINITIALIZED_READ,
    FaultKind.RACE: Outcome.RACE,
    FaultKind.CONFLICT: Outcome.RACE,
    FaultKind.OFFSET_WRAP: Outcome.INT_OVERFLOW,
    FaultKind.POISON: Outcome.UNINITIALIZED_READ,
    FaultKind.DIVISION_BY_ZERO: Outcome.RUNTIME_ERROR,
    FaultKind.ASSERTION: Outcome.RUNTIME_ERROR,
    FaultKind.DEADLOCK: Outcome.TIMEOUT,
}
EXPLAINED = (Outcome.WRONG_VALUES, Outcome.OUT_OF_BOUNDS, Outcome.RACE)
"""Failures that a fault of a kernel may be behind."""
SCHEDULES = {Level.QUICK: (Schedule.PARALLEL,), Level.FULL: tuple(Schedule), Level.EXHAUSTIVE: tuple(Schedule)}
SMALL_CASES = {Level.QUICK: 1, Level.FULL: 8, Level.EXHAUSTIVE: 16}
"""Cases away from the workloads that are examined; each may need kernels of its own, which take a compiler's time."""
WORKLOADS = {Level.QUICK: 1, Level.FULL: 4, Level.EXHAUSTIVE: 8}
MOST_BYTES = 64 << 20
"""Of inputs and outputs: a checked run of more, one program after the other, takes seconds."""
SHOWN = 5
"""Faults that a message names."""
_ORDERS = {
    Schedule.PARALLEL: "",
    Schedule.REVERSED: "where its programs run one after the other, the last one first, ",
    Schedule.SHUFFLED: "where its programs run one after the other, in no particular order, ",
    Schedule.DEFERRED: "where a program's stores are seen late, as a device may do it, ",
}


def examined(cases: Sequence[Case], level: Level) -> frozenset[str]:
    """Which of a level's cases to examine, by their keys: some evenly apart, and the smallest workloads."""
    small = [case for case in cases if case.workload is None]
    step = max(1, len(small) // SMALL_CASES[level])
    tuned = sorted((case for case in cases if case.workload is not None), key=lambda case: prod(case.dims.values()))
    return frozenset(map(key, small[::step][: SMALL_CASES[level]] + tuned[: WORKLOADS[level]]))


_LINE_DIGITS = 7
"""No module has more lines; the launcher that names one may have been overwritten."""


def key(case: Case) -> str:
    """What a case is known by."""
    return case.model_dump_json()


class Examiner:
    """Asks a launcher to run prepared plans with checked kernels."""

    def __init__(self, launcher: LauncherSession, source: str, level: Level, seed: int) -> None:
        """`source` is the candidate's module, for the lines that a report names."""
        self._launcher = launcher
        self._lines = code_lines(source)
        self._schedules = SCHEDULES[level]
        self._seed = seed
        self._seen: set[str] = set()
        self.notes: dict[str, None] = {}
        """Why something could not be examined."""

    def refuse(self, plan: LaunchPlan, plan_id: int, known: Known, seconds: Callable[[], float]) -> bool:
        """Whether the plan was looked at, which happens to none twice. Raises CandidateFailure for the first schedule
        under which a kernel is at fault."""
        if plan.digest in self._seen or known.input_bytes + known.output_bytes > MOST_BYTES:
            return False
        self._seen.add(plan.digest)
        for schedule in self._schedules:
            faults = tuple(f for f in self._faults(plan_id, known, schedule, seconds()) if f.kernel != HOST)
            if faults:
                failure = CandidateFailure(OUTCOMES[faults[0].kind], _words(faults, schedule), stage=Stage.CHECK)
                failure.faults = faults
                raise failure
        return True

    def explain(self, failure: CandidateFailure, plan_id: int, known: Known, seconds: Callable[[], float]) -> None:
        """Add to a failure what its kernels did wrong, if that is found."""
        if failure.outcome not in EXPLAINED:
            return
        for schedule in tuple(Schedule) if failure.outcome is Outcome.RACE else (Schedule.PARALLEL,):
            if faults := self._faults(plan_id, known, schedule, seconds()):
                failure.message += f"\n{_words(faults, schedule)}"
                failure.faults = faults
                return

    def _faults(self, plan_id: int, known: Known, schedule: Schedule, seconds: float) -> tuple[Fault, ...]:
        packed = transport.packed(known.inputs)
        inputs = self._launcher.desk.inputs(packed.end)
        transport.write(known.inputs, inputs, packed.regions)
        request = Examine(plan_id=plan_id, inputs=packed.regions, schedule=schedule, seed=self._seed)
        try:
            found = self._launcher.examine(request, inputs, seconds=seconds)
        except CandidateFailure as failure:
            if failure.outcome is Outcome.COMPILE_ERROR:  # the plain build of the same kernel was compiled
                self.notes[f"not examined by a checked build: {failure.message}"] = None
                return ()
            if failure.outcome is Outcome.TIMEOUT:
                failure.message = f"{_ORDERS[schedule]}a checked build of its kernels did not end within {seconds:g} s"
            raise
        return tuple(map(self._placed, found.faults))

    def _placed(self, fault: Fault) -> Fault:
        """With the line of the candidate's module, which the launcher cannot read, and without the folder it lay in."""
        file, _, line = (fault.location or "").rpartition(":")
        if Path(file).name != f"{MODULE_NAME}.py" or not line.isdecimal() or len(line) > _LINE_DIGITS:
            return fault
        text = self._lines[int(line) - 1].strip() if 0 < int(line) <= len(self._lines) else None
        return replace(fault, location=f"line {line}", expression=text or fault.expression)


def _words(faults: Sequence[Fault], schedule: Schedule) -> str:
    order = _ORDERS[schedule]
    if order and any(fault.kind is FaultKind.DEADLOCK for fault in faults):
        order = f"it depends on the order in which programs run, which is not promised: {order}"
    head = f"{order}a checked run of its kernels finds"
    more = f"\nand {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    return f"{head}:\n" + "\n".join(map(_line, faults[:SHOWN])) + more


def _line(fault: Fault) -> str:
    if fault.kernel != HOST:
        return str(fault)
    return f"{fault.tensor}{list(fault.index or ())} is returned without ever having been written"

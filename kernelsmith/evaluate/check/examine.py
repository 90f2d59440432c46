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

import torch

from kernelsmith.evaluate.sessions import transport
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.session import LauncherSession
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.faults import Fault, FaultKind, Schedule
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.plan import LaunchPlan
from kernelsmith.sandbox.roles import MODULE_NAME
from kernelsmith.sandbox.wire.messages import HOST, Examine, Keep
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
EXPLAINED = (Outcome.WRONG_VALUES, Outcome.OUT_OF_BOUNDS, Outcome.RACE, Outcome.NONDETERMINISTIC)
"""Failures that a fault of a kernel may be behind."""
BY_ORDER = (Outcome.RACE, Outcome.NONDETERMINISTIC)
"""Those that may show under some orders of programs only."""
JUDGED = (Schedule.REVERSED, Schedule.SHUFFLED, Schedule.INTERLEAVED)
"""Orders under which a right kernel's answer is right. One whose stores are kept back may lose what its own program has
added to them by an atomic operation."""
_ATOMIC = "tt.atomic"
SCHEDULES = {
    Level.QUICK: (Schedule.PARALLEL, Schedule.INTERLEAVED),
    Level.FULL: tuple(Schedule),
    Level.EXHAUSTIVE: tuple(Schedule),
}
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
    Schedule.INTERLEAVED: "where other programs get on between two atomic operations of one, ",
}


def examined(cases: Sequence[Case], level: Level) -> frozenset[str]:
    """Which of a level's cases to examine, by their keys: some evenly apart, and the smallest workloads."""
    small = [case for case in cases if case.workload is None]
    step = max(1, len(small) // SMALL_CASES[level])
    tuned = sorted((case for case in cases if case.workload is not None), key=lambda case: prod(case.dims.values()))
    return frozenset(map(key, small[::step][: SMALL_CASES[level]] + tuned[: WORKLOADS[level]]))


Judged = Callable[[Known, list[torch.Tensor], list[torch.Tensor]], Finding | None]
"""What is wrong with an answer: the returned tensors, and the storages of the inputs afterwards."""
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

    def refuse(
        self, plan: LaunchPlan, plan_id: int, known: Known, judged: Judged, seconds: Callable[[], float]
    ) -> bool:
        """Whether the plan was looked at, which happens to none twice. Raises CandidateFailure for the first schedule
        under which a kernel is at fault, or the answer wrong."""
        if plan.digest in self._seen or known.input_bytes + known.output_bytes > MOST_BYTES:
            return False
        self._seen.add(plan.digest)
        atomic = any(_ATOMIC in kernel.ttir for kernel in plan.kernels)
        for schedule in self._schedules:
            if schedule is Schedule.INTERLEAVED and not atomic:  # its programs would run one after the other
                continue
            found = self._faults(plan_id, known, schedule, seconds())
            if faults := tuple(fault for fault in found or () if fault.kernel != HOST):
                failure = CandidateFailure(OUTCOMES[faults[0].kind], _words(faults, schedule), stage=Stage.CHECK)
                failure.faults = faults
                raise failure
            if found is not None and schedule in JUDGED and (finding := self._wrong(plan_id, known, judged, seconds())):
                message = (
                    f"the answer depends on the order in which programs run, which is not promised: {_ORDERS[schedule]}"
                )
                raise CandidateFailure(Outcome.RACE, f"{message}{finding}", stage=Stage.CHECK)
        return True

    def explain(self, failure: CandidateFailure, plan_id: int, known: Known, seconds: Callable[[], float]) -> None:
        """Add to a failure what its kernels did wrong, if that is found; a race explains what comes now and then."""
        if failure.outcome not in EXPLAINED:
            return
        for schedule in tuple(Schedule) if failure.outcome in BY_ORDER else (Schedule.PARALLEL,):
            if faults := self._faults(plan_id, known, schedule, seconds()):
                failure.message += f"\n{_words(faults, schedule)}"
                failure.faults = faults
                if failure.outcome is Outcome.NONDETERMINISTIC and OUTCOMES[faults[0].kind] is Outcome.RACE:
                    failure.outcome = Outcome.RACE
                return

    def _wrong(self, plan_id: int, known: Known, judged: Judged, seconds: float) -> str:
        """What is wrong with the answer that the last checked run left, in words; empty if nothing is."""
        packed = transport.packed(known.inputs)
        desk = self._launcher.desk
        inputs, outputs = desk.inputs(packed.end), desk.outputs(transport.room_for(known.returned))
        kept = self._launcher.keep(Keep(plan_id=plan_id, inputs=packed.regions), inputs, outputs, seconds=seconds)
        after = transport.storages(inputs, packed.regions)
        finding = judged(known, transport.outputs(outputs, kept.outputs), after)
        return finding.message if finding is not None else ""

    def _faults(self, plan_id: int, known: Known, schedule: Schedule, seconds: float) -> tuple[Fault, ...] | None:
        """None where there is no checked build."""
        packed = transport.packed(known.inputs)
        inputs = self._launcher.desk.inputs(packed.end)
        transport.write(known.inputs, inputs, packed.regions)
        request = Examine(plan_id=plan_id, inputs=packed.regions, schedule=schedule, seed=self._seed)
        try:
            found = self._launcher.examine(request, inputs, seconds=seconds)
        except CandidateFailure as failure:
            if failure.outcome is Outcome.COMPILE_ERROR:  # the plain build of the same kernel was compiled
                self.notes[f"not examined by a checked build: {failure.message}"] = None
                return None
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

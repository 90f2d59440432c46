"""Cases that may cost a candidate's processes their lives without saying that it is wrong, in processes of their own.

Rows so far apart that offsets pass 2**31 elements, over memory that mostly does not exist: where the operator lets rows
lie apart and tensors be so large, a wrong answer refuses the candidate; where they cannot be, it is noted; where it
only needs too much memory, that is left out. Layouts that the operator does not declare: a candidate that is wrong
there is right, and a note says what it assumes.
`evaluate` calls this at the full level and beyond, on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.sessions.failure import CandidateFailure, KilledFailure
from kernelsmith.evaluate.truth.explore import far, reaches_far, undeclared
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.operators.declare import Layout
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Outcome, Stage

SECONDS = 60.0
"""For all cases of one such process."""
WRONG = frozenset(
    {
        Outcome.WRONG_VALUES,
        Outcome.WRONG_SHAPE,
        Outcome.WRONG_DTYPE,
        Outcome.MUTATED_INPUT,
        Outcome.OUT_OF_BOUNDS,
        Outcome.INT_OVERFLOW,
        Outcome.CRASHED,
    }
)
"""What an answer can be said to be; an error that the host function raises is no answer."""
FAR_ADVICE = (
    "the rows of {name} lie 2**30 elements apart here, so that offsets pass 2**31 - 1: "
    "compute them in 64 bits, for example row.to(tl.int64) * stride"
)
NARROW = "computes offsets in {name} in 32 bits: wrong beyond 2**31 elements, which its declared sizes do not reach"
ASSUMED = {
    Layout.ROWS_SLICED: "assumes contiguous rows of {name}: {what} on sliced rows, which the operator does not declare",
    Layout.OFFSET: "assumes that {name} begins at an aligned address: {what} one element further, which the operator "
    "does not declare",
}

Open = Callable[[], AbstractContextManager[Checker]]
"""A checker over fresh processes that have loaded the candidate."""


def narrow_offsets(operator: LoadedOperator, open_checker: Open, collector: Collector) -> list[str]:
    """What is wrong with offsets beyond 2**31 elements where no declared tensor is so large, in sentences.

    Raises CandidateFailure where the declaration allows such tensors: its sizes reach them, or it names far rows."""
    found = []
    for case in far(operator):
        name = next(n for n, layout in case.layouts.items() if layout == Layout.FAR)
        if (failure := _failure(open_checker, case)) is None:
            collector.ran(case.where())
        elif failure.outcome not in WRONG or isinstance(failure, KilledFailure) or failure.stage is Stage.LOAD:
            why = failure.message.partition("\n")[0]
            collector.leave_out(f"offsets beyond 2**31 elements in {name} were not judged: {why}")
        elif reaches_far(operator, name):
            failure.message = f"{failure.message}; {FAR_ADVICE.format(name=name)}"
            failure.suspect = None  # a checked build would want shadows of all that memory
            raise failure
        else:
            found.append(NARROW.format(name=name))
    return found


def assumptions(operator: LoadedOperator, open_checker: Open) -> list[str]:
    """What the candidate takes for granted of layouts that are not declared, in sentences."""
    pending: Sequence[tuple[str, Layout, Case]] = undeclared(operator)
    found = []
    try:
        while pending:
            with open_checker() as checker:
                for number, (name, layout, case) in enumerate(pending, 1):
                    failure = _tried(checker, case)
                    if failure is not None and failure.outcome in WRONG:
                        what = "crashes" if failure.outcome is Outcome.CRASHED else "wrong"
                        found.append(ASSUMED[layout].format(name=name, what=what))
                    if failure is not None:  # its processes may be gone
                        pending = pending[number:]
                        break
                else:
                    return found
    except CandidateFailure as failure:  # its module was loaded before, by the check
        why = failure.message.partition("\n")[0]
        found.append(f"layouts that are not declared were not all tried: {why}")
    return found


def _failure(open_checker: Open, case: Case) -> CandidateFailure | None:
    try:
        with open_checker() as checker:
            checker.case(case)
    except CandidateFailure as failure:
        return failure
    return None


def _tried(checker: Checker, case: Case) -> CandidateFailure | None:
    try:
        checker.case(case)
    except CandidateFailure as failure:
        return failure
    return None

"""The smallest input at which a candidate fails, and the plainest.

First whatever is special about the case is dropped (layouts, contents, absent arguments, scalars, dtypes), all of it at
once and then one by one; then each dim is brought down by halves. Both again, until nothing gets smaller. As in delta
debugging the result is small in that no single step makes it smaller, not in that no smaller input fails. Called by
`locate`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from kernelsmith.evaluate.region.line import Line, plain_layouts, resized
from kernelsmith.evaluate.region.runs import Runs, SpentError
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.operators.loaded import LoadedOperator

FIELDS = ("workload", "values", "layouts", "absent", "scalars", "dtypes")
"""What can be special about a case."""
ROUNDS = 3
"""Times that all steps are tried: what one dim allows may depend on another."""


def smallest(op: LoadedOperator, case: Case, runs: Runs) -> Case:
    """From a case that fails to a smaller one that fails too. Never raises SpentError."""
    search = _Search(op, case, runs)
    with contextlib.suppress(SpentError):
        for _ in range(ROUNDS):
            before = search.case
            search.plainer()
            search.shorter()
            if search.case == before:
                break
    return search.case


@dataclass
class _Search:
    op: LoadedOperator
    case: Case
    """The smallest that fails so far."""
    runs: Runs

    def fails(self, case: Case) -> bool:
        """Whether a simpler case fails as well; it is the smallest then."""
        if not self.runs.wrong(case):
            return False
        self.case = case
        return True

    def plainer(self) -> None:
        """Drop what is special: all of it, or as much of it as can be."""
        if self.fails(_plain(self.op, self.case)):
            return
        for field in FIELDS:
            for simpler in _without(self.op, self.case, field):
                if self.fails(simpler):
                    break

    def shorter(self) -> None:
        """Bring each dim down: to its low end, else by halves."""
        for dim in self.op.dims:
            line = Line(self.op, self.case, dim.name)
            wrong = line.here
            right = line.towards(line.low, wrong - 1) if wrong > line.low else None
            if right is None or self.fails(line.case(right)):
                continue
            while (middle := line.between(right, wrong)) is not None:
                if self.fails(line.case(middle)):
                    wrong = middle
                else:
                    right = middle


def _plain(op: LoadedOperator, case: Case) -> Case:
    """Nothing special about it."""
    for field in FIELDS:
        case = next(_without(op, case, field), case)
    return case


def _without(op: LoadedOperator, case: Case, field: str) -> Iterator[Case]:
    """The case with the usual thing in one respect, then (where it has parts) in each part of it."""
    match field:
        case "workload":
            yield case.model_copy(update={"workload": None})
        case "values":
            yield case.model_copy(update={"values": Values.NORMAL, "focus": None})
        case "layouts":
            usual_layouts = plain_layouts(op)
            yield case.model_copy(update={"layouts": usual_layouts})
            for name in case.layouts:
                others = {n: layout for n, layout in case.layouts.items() if n != name}
                own = {name: usual_layouts[name]} if name in usual_layouts else {}
                yield case.model_copy(update={"layouts": others | own})
        case "absent":
            yield case.model_copy(update={"absent": ()})
        case "scalars":
            usual = {name: value for w in op.workloads[:1] for name, value in w.scalars.items() if name in case.scalars}
            yield resized(op, case.model_copy(update={"scalars": case.scalars | usual}), case.dims)
        case _:
            for dtypes in itertools.takewhile(lambda one: one != case.dtypes, op.dtype_sets):
                yield case.model_copy(update={"dtypes": dtypes})

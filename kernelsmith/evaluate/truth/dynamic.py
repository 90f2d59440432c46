"""Refuses operators whose answers have a shape that depends on the contents of their inputs.

A launch plan holds sizes, so a call that returns what `nonzero` returns has another plan for every content: nothing
could be replayed or timed. What a plan may depend on is declared per argument (`plan_relevant=`), and those arguments
have one content per case (`inputs.materialise`).
"""

from __future__ import annotations

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth.answers import run
from kernelsmith.evaluate.truth.explore import sequence
from kernelsmith.evaluate.truth.inputs import Case, materialise
from kernelsmith.operators.loaded import LoadedOperator

CONTENTS, CONTENTS_OF_A_PROBLEM = 6, 2
"""Contents that are tried; a KernelBench problem has no small case, so fewer."""


def refuse_dynamic(op: LoadedOperator, seed: int) -> None:
    """Raises OperatorError where two contents of one case have answers of different shapes."""
    case = next(iter(sequence(op)), None)
    if case is None:
        return
    first = _shapes(op, case, seed)
    for number in range(1, CONTENTS if op.problem is None else CONTENTS_OF_A_PROBLEM):
        if (other := _shapes(op, case, seed + number)) != first:
            raise OperatorError(
                f"the shape of the answer depends on the contents of the inputs: {_words(first)} for one content, "
                f"{_words(other)} for another, at {case.where().describe()}; such calls cannot be recorded as a plan",
                "return a result of a fixed size with a count, or name the tensors that decide it in plan_relevant=",
                file=op.info.path,
            )


def _shapes(op: LoadedOperator, case: Case, seed: int) -> list[tuple[int, ...]]:
    inputs = materialise(op, case, seed)
    return [tuple(output.shape) for output in run(op, inputs, inputs.tensors(), op.reference).returned]


def _words(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join(map(str, map(list, shapes)))

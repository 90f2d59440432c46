"""An operator's own `properties(call, *inputs)`: what holds between several calls of a candidate, such as one mask per
seed.

`call` takes tensors, lists and scalars as the operator does and returns what the candidate made of them; the user's
function decides. Invariant: tensors it passes are laid out as the case says and guarded like any other input. Called by
`check` with real host calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelsmith.errors import USER_ERRORS, OperatorError
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.inputs import CallInputs, ListValue, ScalarValue, TensorValue, Value, lay_out
from kernelsmith.operators.declare import Layout
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Outcome

Answerer = Callable[[CallInputs], tuple[Any, list[torch.Tensor]]]
"""Calls the candidate: what it returned, and the storages after the call, one per buffer."""


def violated(op: LoadedOperator, inputs: CallInputs, answer: Answerer) -> Finding | None:
    """Runs the operator's properties; False or an AssertionError rejects.

    Raises OperatorError where the user's function itself fails, CandidateFailure where a call does.
    """
    assert op.properties is not None

    def call(*arguments: Any) -> Any:
        given = passed(op, inputs, arguments)
        returned, after = answer(given)
        tensors = [t for a in arguments for t in (a if isinstance(a, list | tuple) else [a]) if torch.is_tensor(t)]
        names = given.buffer_names()
        for name, buffer, left, tensor in zip(names, given.buffers(), after, tensors, strict=True):
            if name in op.mutates:
                tensor.copy_(buffer.on(left))
        return returned

    try:
        holds = op.properties(call, *inputs.arguments())
        reason = "the operator's properties do not hold"
    except CandidateFailure:
        raise
    except AssertionError as error:
        holds, reason = False, f"the operator's properties do not hold: {error}"
    except USER_ERRORS as error:
        message = f"properties= raised {type(error).__name__}: {error}"
        raise OperatorError(message, "it should return True or False", file=op.info.path) from error
    return None if holds else Finding(Outcome.WRONG_VALUES, reason)


def passed(op: LoadedOperator, inputs: CallInputs, arguments: tuple[Any, ...]) -> CallInputs:
    """Arguments of a property's call as inputs of the case they belong to. Raises OperatorError for what is none."""
    if len(arguments) != len(inputs.names):
        raise OperatorError(
            f"properties= called the candidate with {len(arguments)} arguments, it takes {len(inputs.names)}",
            "pass every argument, in the order of the reference",
            file=op.info.path,
        )
    values: list[Value] = []
    buffer = 0
    for name, argument in zip(inputs.names, arguments, strict=True):
        layout = Layout(inputs.case.layouts.get(name, Layout.CONTIGUOUS))
        if isinstance(argument, torch.Tensor):
            values.append(_laid_out(argument, layout, buffer))
            buffer += 1
        elif isinstance(argument, list | tuple):
            values.append(ListValue(tuple(_laid_out(t, layout, buffer + i) for i, t in enumerate(argument))))
            buffer += len(argument)
        elif argument is None or isinstance(argument, bool | int | float | str):
            values.append(ScalarValue(argument))
        else:
            message = f"properties= passed a {type(argument).__name__} as {name}"
            raise OperatorError(message, "pass tensors, numbers, flags, strings or None", file=op.info.path)
    return CallInputs(inputs.case, inputs.names, tuple(values))


def _laid_out(tensor: torch.Tensor, layout: Layout, buffer: int) -> TensorValue:
    """An expanded argument may have been replaced by one whose rows differ: that one is contiguous."""
    if layout is Layout.EXPANDED and tensor.dim() and tensor.shape[0] and bool((tensor != tensor[:1]).any()):
        layout = Layout.CONTIGUOUS
    return lay_out(tensor.detach(), layout, buffer)

"""Runs a reference: on the inputs as they are, or upcast to float64.

Random numbers come from torch's generator under one fixed state, so that a random reference repeats itself. Whatever
the reference raises is an OperatorError with its line. Called by `oracle` and `bounds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelsmith.errors import USER_ERRORS, OperatorError
from kernelsmith.evaluate.truth.inputs import CallInputs
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.operators.native import RETURN_IT, placed
from kernelsmith.operators.seeded import seeded

RANDOM_STATE = 20
"""Seed of torch's generator while a reference runs: random references repeat themselves."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What one run of the reference gave."""

    returned: list[torch.Tensor]
    mutated: list[torch.Tensor]
    """Final values of the mutated buffers, in buffer order."""
    single: bool

    @property
    def all(self) -> list[torch.Tensor]:
        return [*self.returned, *self.mutated]


class _Lifted(TorchFunctionMode):
    """float32 becomes float64 where a reference asks for it: `x.float()`, `dtype=torch.float32`, `torch.ones(3)`.

    In a reference it means "compute wide". A mode rather than the default dtype, which all threads share.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        wide = [torch.float64 if a is torch.float32 else a for a in args]
        named = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        result = func(*wide, **named)
        given = (a for a in (*wide, *named.values()) if isinstance(a, torch.Tensor))
        if isinstance(result, torch.Tensor) and result.dtype is torch.float32:
            return result if any(g.dtype is torch.float32 for g in given) else result.double()
        return result


def run(
    op: LoadedOperator,
    inputs: CallInputs,
    tensors: list[torch.Tensor],
    reference: Callable[..., Any],
    *,
    state: int = RANDOM_STATE,
) -> Answer:
    """One run under a fixed random state; whatever the reference raises is an OperatorError with its line."""
    with seeded(state):
        try:
            result = reference(*inputs.rebuilt(tensors))
        except USER_ERRORS as error:
            doing = f"the reference raised at {inputs.case.where().describe()}: "
            hint = "if such inputs are not legal, say so: Dim ranges, where=, values=, low= and high="
            raise placed(error, Path(op.info.path), doing, hint) from error
    returned = list(result) if isinstance(result, tuple | list) else [] if result is None else [result]
    if not all(isinstance(r, torch.Tensor) for r in returned):
        kinds = ", ".join(type(r).__name__ for r in returned)
        raise OperatorError(f"the reference returned ({kinds})", RETURN_IT, file=op.info.path)
    mutated = [tensors[n] for n in mutated_buffers(op, inputs)]
    return Answer([r.detach() for r in returned], mutated, isinstance(result, torch.Tensor))


def in_double(op: LoadedOperator, inputs: CallInputs, doubles: list[torch.Tensor]) -> Answer:
    """The reference on float64 inputs, which it may change if it is one that does; floating answers in float64."""
    with _Lifted():
        answer = run(op, inputs, doubles, op.reference_in_double)
    return as_double(answer)


def upcast(t: torch.Tensor) -> torch.Tensor:
    if t.is_complex():
        return t.to(torch.complex128)
    return t.contiguous().double() if t.is_floating_point() else t


def as_double(answer: Answer) -> Answer:
    """The same answer with floating tensors in float64."""
    return Answer([upcast(t) for t in answer.returned], [upcast(t) for t in answer.mutated], answer.single)


def mutated_buffers(op: LoadedOperator, inputs: CallInputs) -> list[int]:
    return [i for i, name in enumerate(inputs.buffer_names()) if name in op.mutates]


def is_floating(t: torch.Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()

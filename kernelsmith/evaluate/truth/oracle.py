"""The truth about one call: what each output should be, and how far from it an honest kernel may be.

Truth is the reference on inputs upcast to float64; the allowed distance is measured at that input (see `bounds`). Where
a published rule has one formula for all, it rejects honest kernels (cancelling sums, bf16 attention) or accepts faults
(a dropped element of a long sum). Runs in the judge; `compare` holds answers against a `Truth`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth.answers import as_double, in_double, is_floating, mutated_buffers, run, upcast
from kernelsmith.evaluate.truth.bounds import Movement, agreed, measured, movements, user_bounds
from kernelsmith.evaluate.truth.inputs import CallInputs
from kernelsmith.evidence import Rule
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.tolerances import TORCH


@dataclass(frozen=True, eq=False)
class Expected:
    """One output: what it should be and what else is right."""

    name: str
    """`output 0`, or the name of a mutated argument."""
    returned: int | None
    """Position among the returned tensors; None for a mutated argument that the reference does not return."""
    mutated: int | None
    """Buffer number of the mutated argument it lives in."""
    own: bool
    """Whether the reference returns it in memory that no argument and no other output has a part in."""
    truth: torch.Tensor
    """float64 (or complex128) where the output is floating, else the output's own dtype."""
    working: torch.Tensor
    """The reference's answer in the working dtype: gives dtype and shape."""
    strides: tuple[int, ...]
    """Of the reference's answer, which may be a view."""
    bound: torch.Tensor | None
    """Largest allowed |answer - truth| per element; None: the answer must equal truth, `working` or one of `seen`."""
    seen: tuple[torch.Tensor, ...]
    """For exact outputs: answers under perturbed inputs. For floats: one mask of elements where a draw gave NaN."""
    rule: str
    """What the bound is: one of `Rule`, or the name of a tolerance policy."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Everything needed to judge one call."""

    outputs: tuple[Expected, ...]
    single: bool
    """The reference returns one tensor, not a tuple."""
    notes: tuple[str, ...] = ()


def truth(op: LoadedOperator, inputs: CallInputs, *, draws: int) -> Truth:
    """Runs the reference in the working dtype, in float64, and `draws` times on perturbed inputs.

    Raises:
        OperatorError: the reference raises, or returns something that is not a tensor or a tuple of tensors.
    """
    working_arguments = inputs.tensors()
    working = run(op, inputs, working_arguments, op.reference)
    spared = [t.clone() for t in working.all]
    notes: tuple[str, ...] = ()
    doubles = [upcast(b.fresh()) for b in inputs.buffers()]
    try:
        exact = in_double(op, inputs, [d.clone() for d in doubles])
        moved = movements(op, inputs, doubles, exact, draws)
    except OperatorError as error:
        exact, moved = as_double(working), None
        notes = (
            "truth in the working dtype, held to the policy `torch`, for the reference does not run in float64: "
            f"{error.message}",
        )
    extra = user_bounds(op, inputs, len(exact.all))
    numbers = mutated_buffers(op, inputs)
    outputs = []
    for i, (t, w) in enumerate(zip(exact.all, spared, strict=True)):
        n = len(working.returned)
        movement = None if moved is None else moved[i]
        alias = _alias(working.all[i], working_arguments, numbers)
        place = _Place(
            name=f"output {i}" if i < n else inputs.buffer_names()[numbers[i - n]],
            returned=i if i < n else None,
            mutated=alias if i < n else numbers[i - n],
            own=i < n and _alone(working.returned[i], [*working_arguments, *working.returned]),
            strides=working.all[i].stride(),
        )
        outputs.append(_expected(op, place, t, w, movement, extra[i]))
    return Truth(tuple(outputs), working.single, notes)


def _alias(out: torch.Tensor, arguments: Sequence[torch.Tensor], numbers: Sequence[int]) -> int | None:
    """The mutated buffer that a returned tensor lives in."""
    for n in numbers:
        if out.untyped_storage().data_ptr() == arguments[n].untyped_storage().data_ptr():
            return n
    return None


def _alone(out: torch.Tensor, others: Sequence[torch.Tensor]) -> bool:
    """Whether no other one lives in its storage."""
    storage = out.untyped_storage().data_ptr()
    return sum(one.untyped_storage().data_ptr() == storage for one in others) == 1


@dataclass(frozen=True)
class _Place:
    """Which output: see the fields of `Expected`."""

    name: str
    returned: int | None
    mutated: int | None
    own: bool
    strides: tuple[int, ...]


def _expected(
    op: LoadedOperator,
    place: _Place,
    exact: torch.Tensor,
    working: torch.Tensor,
    movement: Movement | None,
    extra: torch.Tensor | None,
) -> Expected:
    if exact.shape != working.shape:
        raise OperatorError(f"{place.name} has another shape in float64", "its shape must not depend on the dtype")
    if not is_floating(working):
        seen = () if movement is None else movement.seen
        return Expected(
            **vars(place), truth=exact.to(working.dtype), working=working, bound=None, seen=seen, rule=Rule.EXACT
        )
    value = upcast(exact) if is_floating(exact) else exact.double()
    unknown = torch.zeros(value.shape, dtype=torch.bool) if movement is None else movement.nan
    policy = op.policy or (TORCH if movement is None else None)
    if policy is not None:
        bound, rule = agreed(policy, value, working), policy.name
    else:
        assert movement is not None
        bound, rule = measured(value, working, movement, extra), Rule.MEASURED if extra is None else Rule.BOUND
    return Expected(**vars(place), truth=value, working=working, bound=bound, seen=(unknown,), rule=rule)

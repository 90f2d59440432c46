"""Holds an answer against the truth and says, in words a person acts on, what is wrong first.

Order: number of outputs, type, dtype, shape, strides, then values (or the operator's own `check`), then the bytes of
the inputs and beside them. NaN and infinities must stand where truth has them; 0.0 and -0.0 are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelsmith.errors import USER_ERRORS, OperatorError
from kernelsmith.evaluate.truth.inputs import CallInputs, TensorValue
from kernelsmith.evaluate.truth.margins import Margins, times
from kernelsmith.evaluate.truth.oracle import Expected, Truth
from kernelsmith.evidence import Mismatch, Rule, allowed
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Outcome
from kernelsmith.plan import ITEM_SIZES, View


@dataclass(frozen=True)
class Finding:
    """What is wrong with an answer."""

    outcome: Outcome
    message: str
    mismatch: Mismatch | None = None


def compare(
    truth: Truth,
    outputs: Sequence[torch.Tensor],
    op: LoadedOperator,
    inputs: CallInputs,
    *,
    after: Sequence[torch.Tensor] | None = None,
    margins: Margins | None = None,
) -> Finding | None:
    """The first thing that is wrong with an answer; None if it is right.

    Args:
        outputs: the returned tensors in order. Those that are mutated arguments may be left out.
        after: storages after the call (1-D uint8, one per buffer); needed where the operator mutates.
        margins: is told how near each output came to what is allowed.
    """
    pairs = _paired(truth, outputs, inputs, after)
    if isinstance(pairs, Finding):
        return pairs
    for expected, got in pairs:
        if wrong := _contract(expected, got):
            return wrong
    margins = Margins() if margins is None else margins
    if op.check is not None:
        for expected, _ in pairs:
            margins.unmeasured(expected, Rule.CHECK)
        return _own_check(truth, pairs, op, inputs)
    for i, (expected, got) in enumerate(pairs):
        if wrong := _values(i, expected, got, inputs, margins):
            return wrong
    return None


def held_otherwise(truth: Truth, kind: str, count: int) -> Finding | None:
    """Whether an answer of `count` tensors is a tensor where the reference gives a tuple, or the other way round.

    `kind` is `Structure.kind`. A tuple and a list are the same. Another number of tensors is not judged here: either
    `compare` says that it is wrong, or mutated arguments were left out.
    """
    returned = sum(e.returned is not None for e in truth.outputs)
    kinds = ("tensor",) if truth.single else ("tuple", "list") if returned else ("none",)
    if kind in kinds or count != returned:
        return None
    wanted = "a tensor" if truth.single else f"a tuple of {_tensors(returned)}" if returned else "nothing"
    got = "a tensor" if kind == "tensor" else f"a {kind} of {_tensors(count)}"
    return Finding(Outcome.WRONG_SHAPE, f"returned {got}, the reference returns {wanted}")


def _tensors(count: int) -> str:
    return f"{count} tensor" if count == 1 else f"{count} tensors"


def _paired(
    truth: Truth, outputs: Sequence[torch.Tensor], inputs: CallInputs, after: Sequence[torch.Tensor] | None
) -> list[tuple[Expected, torch.Tensor]] | Finding:
    returned = [e for e in truth.outputs if e.returned is not None]
    owed = [e for e in returned if e.mutated is None]
    if len(outputs) not in (len(returned), len(owed)):
        message = f"returned {_tensors(len(outputs))}, the reference returns {_tensors(len(returned))}"
        return Finding(Outcome.WRONG_SHAPE, message)
    given, pairs = iter(outputs), list[tuple[Expected, torch.Tensor]]()
    for expected in truth.outputs:
        if expected.returned is not None and (expected.mutated is None or len(outputs) == len(returned)):
            pairs.append((expected, next(given)))
        elif expected.mutated is not None:
            if after is None:
                raise ValueError("an operator that mutates is judged with the storages after the call")
            left = inputs.buffers()[expected.mutated].on(after[expected.mutated])
            if left.shape == expected.working.shape:
                pairs.append((expected, left))
    return pairs


def _contract(expected: Expected, got: torch.Tensor) -> Finding | None:
    """Type, dtype, shape and strides."""
    working, name = expected.working, expected.name
    if type(got) is not torch.Tensor:
        return Finding(Outcome.WRONG_DTYPE, f"{name} is a {type(got).__name__}, not a plain torch.Tensor")
    if got.dtype != working.dtype:
        return Finding(
            Outcome.WRONG_DTYPE, f"{name} is {_short(got.dtype)}, the reference's is {_short(working.dtype)}"
        )
    if got.shape != working.shape:
        message = f"{name} has shape {tuple(got.shape)}, the reference's has {tuple(working.shape)}"
        return Finding(Outcome.WRONG_SHAPE, message)
    if got.is_contiguous() or _mattering(got, got.stride()) == _mattering(got, expected.strides):
        return None
    message = f"{name} has strides {got.stride()}; the reference's are {expected.strides} (contiguous is right too)"
    return Finding(Outcome.WRONG_SHAPE, message)


def _mattering(t: torch.Tensor, strides: tuple[int, ...]) -> list[int]:
    """Strides of dims with more than one element; the others address nothing."""
    return [stride for size, stride in zip(t.shape, strides, strict=True) if size > 1]


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


NO = "the operator's check says no (an `assert condition, reason` in it would say why)"


def _own_check(
    truth: Truth, pairs: Sequence[tuple[Expected, torch.Tensor]], op: LoadedOperator, inputs: CallInputs
) -> Finding | None:
    """The operator's `check(output, expected, *inputs)`: False or an AssertionError rejects.

    It gets what the reference returns, or the mutated arguments where it returns nothing. Raises OperatorError where it
    fails by itself, or answers something else: a forgotten `return True` would refuse every kernel.
    """
    assert op.check is not None
    returned = [(e, g) for e, g in pairs if e.returned is not None] or pairs
    got = [g.clone() for _, g in returned]
    want = [e.working.clone() for e, _ in returned]
    single = len(got) == 1 and (truth.single or returned[0][0].returned is None)
    try:
        says = op.check(got[0] if single else tuple(got), want[0] if single else tuple(want), *inputs.arguments())
    except AssertionError as error:
        reason = f"the operator's check says: {error}" if str(error) else NO
        return Finding(Outcome.WRONG_VALUES, reason)
    except USER_ERRORS as error:
        message = f"check= raised {type(error).__name__}: {error}"
        raise OperatorError(message, "it should return True or False", file=op.info.path) from error
    if isinstance(says, torch.Tensor) and says.numel() == 1:
        says = bool(says)
    if not isinstance(says, bool):
        what = f"a tensor of shape {tuple(says.shape)}" if isinstance(says, torch.Tensor) else repr(says)
        message = f"check= returned {what}"
        raise OperatorError(message, "let it return True or False, for example by bool(....all())", file=op.info.path)
    return None if says else Finding(Outcome.WRONG_VALUES, NO)


def _values(
    position: int, expected: Expected, got: torch.Tensor, inputs: CallInputs, margins: Margins
) -> Finding | None:
    if expected.bound is None:
        margins.unmeasured(expected, Rule.EXACT)
        if torch.equal(got, expected.truth):
            return None
    elif _all_within(expected, got, inputs, margins):
        return None
    wrong = _wrong_elements(expected, got)
    count = int(wrong.sum())
    if not count:
        return None
    index = _worst(expected, got, wrong)
    value, truth = got[index].item(), expected.truth[index].item()
    bound = 0.0 if expected.bound is None else float(expected.bound[index])
    mismatch = Mismatch(
        output=position,
        index=index,
        got=_plain(value),
        expected=_plain(truth),
        bound=bound,
        count=count,
        total=got.numel(),
    )
    where = f"{expected.name}[{', '.join(map(str, index))}]" if index else expected.name
    message = f"{where} is {_shown(value)}, should be {_shown(truth)}"
    if bound:
        message += f" within {bound:.3g}"
    share = abs(value - truth) / bound if bound else math.inf
    if math.isfinite(share):
        margins.measured(expected, share, index, inputs.case)
        message += f" ({times(share)} {allowed(expected.rule)})"
    return Finding(Outcome.WRONG_VALUES, f"{message}; {count} of {got.numel()} elements are wrong", mismatch)


_PART = 1 << 16
"""Elements that are compared at once: what lies between is float64, and stays in the cache."""


def _all_within(expected: Expected, got: torch.Tensor, inputs: CallInputs, margins: Margins) -> bool:
    """Whether every element is within its bound: the usual case, told in a quarter of the time of the whole rule."""
    assert expected.bound is not None
    whole = (got, expected.truth, expected.bound)
    contiguous = all(t.is_contiguous() for t in whole)
    parts = list(zip(*(torch.split(t.view(-1), _PART) if contiguous else [t] for t in whole), strict=True))
    if not got.numel():
        return True
    largest, part = 0.0, 0
    for number, (one, truth, bound) in enumerate(parts):
        share = _shares(one, truth, bound).amax().item()
        if not share <= 1:  # or it is no number
            return False
        largest, part = max((largest, part), (share, number))
    if margins.is_news(expected, largest):
        flat = part * _PART + int(_shares(*parts[part]).argmax())
        margins.measured(expected, largest, _index(flat, got.shape), inputs.case)
    return True


def _shares(got: torch.Tensor, truth: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """Distances as shares of what is allowed."""
    distance = got.to(truth.dtype) - truth
    return (distance.abs() if distance.is_complex() else distance.abs_()).div_(bound)


def _index(flat: int, shape: torch.Size) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), shape))


def _wrong_elements(expected: Expected, got: torch.Tensor) -> torch.Tensor:
    """Mask of the elements that no honest kernel gives."""
    if expected.bound is None:
        right = (got == expected.truth) | (got == expected.working)
        for other in expected.seen:
            right |= got == other
        return ~right & ~_steps_apart(expected, got, ~right)
    # Everything is compared in float64: narrow dtypes such as float8 have no arithmetic of their own.
    truth, bound, dtype = expected.truth, expected.bound, expected.working.dtype
    wide, beside, rounded = got.to(truth.dtype), expected.working.to(truth.dtype), truth.to(dtype).to(truth.dtype)
    near = (wide - truth).abs() <= bound
    # Where truth is not finite but the reference in its own dtype is, the reference's number is right as well.
    slack = 4 * torch.finfo(dtype).eps * beside.abs()
    near |= ~truth.isfinite() & beside.isfinite() & ((wide - beside).abs() <= slack)
    unknown = rounded.isnan() | beside.isnan() | expected.seen[0]
    same = (wide == rounded) | (wide == beside)
    if truth.is_complex():
        return ~torch.where(wide.isnan(), unknown, near | same)
    endless = same | (truth.isfinite() & (truth * wide.sign() + bound >= torch.finfo(dtype).max))
    return ~torch.where(wide.isnan(), unknown, torch.where(wide.isinf(), endless, near))


STEPS = 4
"""Integers may be a step off in at most this many times as many places as the reference's own answers were."""


def _steps_apart(expected: Expected, got: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
    """Which wrong integers are a step away because a float fell on a rounding boundary.

    Draws meet each boundary from a random side, so a large tensor has some that all of them met from one side. Their
    number is bounded by how often the draws differ from truth; answers that never move stay exact.
    """
    flips = max((int((s != expected.truth).sum()) for s in (expected.working, *expected.seen)), default=0)
    near = wrong & ((got.double() - expected.truth.double()).abs() <= 1)
    return near if int(near.sum()) <= STEPS * flips else torch.zeros_like(near)


def _worst(expected: Expected, got: torch.Tensor, wrong: torch.Tensor) -> tuple[int, ...]:
    """Index of the wrong element that is furthest out, in units of its bound; non-finite ones first."""
    if expected.bound is None:
        badness = wrong.double()
    else:
        excess = _shares(got, expected.truth, expected.bound)
        badness = torch.where(wrong, torch.nan_to_num(excess, nan=torch.inf, posinf=torch.inf), -1.0)
    return _index(int(badness.reshape(-1).argmax()), got.shape)


def _plain(value: Any) -> float | int | bool | str:
    return str(value) if isinstance(value, complex) else value


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def untouched(op: LoadedOperator, inputs: CallInputs, after: Sequence[torch.Tensor]) -> Finding | None:
    """Whether inputs and the memory beside them are as before the call; `after` holds one storage per buffer."""
    names = inputs.buffer_names()
    for name, buffer, left in zip(names, inputs.buffers(), after, strict=True):
        if torch.equal(buffer.storage, left):
            continue
        changed = buffer.storage != left
        inside = reached(buffer)
        beside = changed & ~inside
        if bool(beside.any()):
            at = int(beside.nonzero()[0])
            return Finding(Outcome.OUT_OF_BOUNDS, _beside(name, buffer, at, int(beside.sum())))
        if name not in op.mutates:
            message = f"{name} was changed ({int(changed.sum())} bytes), the reference leaves it as it is"
            return Finding(Outcome.MUTATED_INPUT, message)
    return None


def reached(buffer: TensorValue) -> torch.Tensor:
    """Mask of the storage's bytes that belong to an element of the view."""
    return covered(buffer.view, buffer.storage.numel())


def covered(view: View, nbytes: int) -> torch.Tensor:
    """Mask of a buffer's bytes, `nbytes` of them, that belong to an element of the view."""
    item = ITEM_SIZES[view.dtype]
    mask = torch.zeros(nbytes, dtype=torch.bool)
    if view.numel:
        elements = mask[: nbytes // item * item].view(-1, item)
        strides = (*(s * item for s in view.strides), 1)
        elements.as_strided((*view.shape, item), strides, view.offset * item).fill_(True)
    return mask


def _beside(name: str, buffer: TensorValue, at: int, count: int) -> str:
    start = buffer.view.offset * getattr(torch, buffer.view.dtype).itemsize
    if at < start:
        place = f"{start - at} bytes before it"
    elif at >= buffer.view.extent:
        place = f"{at - buffer.view.extent} bytes past its end"
    else:
        place = "between its rows"
    return f"a store missed {name}: {count} bytes that are not its own were changed, the first {place}"

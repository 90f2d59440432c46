"""How far an honest kernel may be from the truth, per element: measured, not fixed.

The rounding of the output, plus a multiple of what the answer moves when every input moves by its own rounding unit
(several draws in float64, smoothed over neighbours), plus a multiple of what the reference itself loses in the working
dtype there and, where inputs are wide, one rounding unit beside. Called by `oracle`.

float32 inputs that are multiplied as tf32 or bfloat16 lie outside by two orders of magnitude: a kernel that trades bits
for speed is another operator, and whoever wants it says so by a policy or `bound=`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelsmith.errors import USER_ERRORS
from kernelsmith.evaluate.truth.answers import RANDOM_STATE, Answer, in_double, is_floating, run
from kernelsmith.evaluate.truth.inputs import CallInputs
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.operators.native import placed
from kernelsmith.tolerances import Policy

NARROW = 4.0
"""Multiple of the measured movement: at 4x, 8 draws pass honest bf16 attention and see one key of 16,253 dropped."""
WIDE, WIDEST = 16.0, 512.0
"""The multiple where inputs are as wide as the accumulator: twice the root of the number of terms, between these. A sum
of n terms in sequence rounds n times, so its error grows with the root of n beside that of moved inputs; twice, since
the worst of millions of elements counts (of a product with 2048 terms, 11 in 8.4 million were 1.4 of the root off)."""
LOSS = 4.0
"""Multiple of what the reference itself loses in the working dtype, beyond the rounding of its answer."""
ROUNDING = 4.0
"""Units of eps granted to float32 and float64 answers, for approximate intrinsics; half the root of the number of terms
is added. Narrower answers get 1: they are rounded once from something wider."""
NEIGHBOURS, NEIGHBOURS_IN_LONG_ROWS = 4, 16
"""Elements on each side that lend their movement to one whose draws were lucky. Among millions of elements with two
draws each, some have four lucky neighbours on a side."""
LONG_ROW = 128
"""Elements from which a row is long; in shorter ones the neighbours would be other rows."""
EXTRA_INTEGER_DRAWS = 8
"""More draws where answers are integers: each decides between two steps, and all of them together should see both."""
SIGNS = 65537
"""Random signs per draw; a prime, so that no axis sees a pattern."""
SMALL = 1 << 16
"""Input elements up to which extra draws cost nothing."""
ACCUMULATION = 64.0
"""A user's `bound=` counts this many float32 roundings of the magnitude it gives."""


@dataclass(frozen=True, eq=False)
class Movement:
    """How one output moved under the draws."""

    largest: torch.Tensor
    """Largest finite |draw - truth| per element, times the multiple granted for it."""
    lost: torch.Tensor
    """Largest |draw in the working dtype - truth| beyond the rounding of the answer; wide inputs only."""
    nan: torch.Tensor
    """Elements that became NaN in a draw."""
    seen: tuple[torch.Tensor, ...]
    """The answers themselves, for outputs that are not floating."""
    root: float
    """Root of the number of terms that may meet in one element."""


def movements(
    op: LoadedOperator, inputs: CallInputs, doubles: Sequence[torch.Tensor], exact: Answer, draws: int
) -> list[Movement]:
    """Reference in float64 on inputs moved by a random sign times their rounding unit."""
    outputs = exact.all
    largest = [torch.zeros(t.shape, dtype=torch.float64) for t in outputs]
    lost = [torch.zeros(t.shape, dtype=torch.float64) for t in outputs]
    nan = [torch.zeros(t.shape, dtype=torch.bool) for t in outputs]
    seen: list[list[torch.Tensor]] = [[] for _ in outputs]
    integers = any(not is_floating(t) for t in outputs)
    if integers and sum(d.numel() for d in doubles) <= SMALL:
        draws += EXTRA_INTEGER_DRAWS
    units = [_unit(b.view.dtype) for b in inputs.buffers()]
    if not any(units):
        draws = 0
    wide = max(units, default=0.0) <= 2.0**-24
    generator = torch.Generator().manual_seed(RANDOM_STATE)
    for _ in range(draws):
        moved = [_perturbed(d, u, generator) for d, u in zip(doubles, units, strict=True)]
        drawn = in_double(op, inputs, moved).all
        for i, (d, t) in enumerate(zip(drawn, outputs, strict=True)):
            if d.shape != t.shape:
                continue
            if is_floating(t):
                distance = (d - t).abs_() if not t.is_complex() else (d - t).abs()
                if bool(distance.sum().isnan()):
                    nan[i] |= d.isnan()
                torch.maximum(largest[i], _finite(distance), out=largest[i])
            elif not any(torch.equal(d, s) for s in seen[i]):
                seen[i].append(d)
        if wide:
            nearby = [_perturbed(d, 2 * u, generator) for d, u in zip(doubles, units, strict=True)]
            own = [n.to(getattr(torch, b.view.dtype)) for n, b in zip(nearby, inputs.buffers(), strict=True)]
            for i, (d, t) in enumerate(zip(run(op, inputs, own, op.reference).all, outputs, strict=True)):
                if is_floating(t) and d.shape == t.shape:
                    torch.maximum(lost[i], loss(d, t), out=lost[i])
    found = []
    for i, t in enumerate(outputs):
        root = math.sqrt(_terms(doubles, t))
        multiple = min(max(2 * root, WIDE), WIDEST) if wide else NARROW
        found.append(Movement(largest[i].mul_(multiple), lost[i], nan[i], tuple(seen[i]), root))
    return found


def _terms(inputs: Sequence[torch.Tensor], output: torch.Tensor) -> float:
    """About how many terms may meet in one element: the longest axis, or inputs per output where that is more."""
    floats = [t for t in inputs if is_floating(t) and t.numel()]
    longest = max((size for t in floats for size in t.shape), default=1)
    ratio = max((t.numel() / max(1, output.numel()) for t in floats), default=1.0)
    return max(1.0, longest, ratio)


def _finite(distance: torch.Tensor) -> torch.Tensor:
    """The same tensor with 0 where it is not finite. Tensors here are large: what can be is done in place."""
    return distance.nan_to_num_(0.0, 0.0, 0.0)


def loss(working: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """How far an answer in its own dtype is from truth beyond half a unit in its last place; 0 where not finite."""
    distance = (working.to(value.dtype) - value).abs()
    return _finite(distance.sub_(value.abs(), alpha=torch.finfo(working.dtype).eps / 2)).clamp_(min=0)


def _unit(dtype: str) -> float:
    """Half the spacing of a dtype at 1, at most bfloat16's: nothing in between is rounded to float8. 0 for integers."""
    named = getattr(torch, dtype)
    rounds = named.is_floating_point or named.is_complex
    return min(float(torch.finfo(named).eps), float(torch.finfo(torch.bfloat16).eps)) / 2 if rounds else 0.0


def _perturbed(t: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    """`t` with every element moved by a random sign times `unit`; the signs of large tensors repeat."""
    if not unit or not t.numel():
        return t.clone()
    factors = torch.randint(0, 2, (min(t.numel(), SIGNS),), generator=generator).double().mul_(2 * unit).add_(1 - unit)
    times = -(-t.numel() // factors.numel())
    return factors.repeat(times)[: t.numel()].reshape(t.shape).to(t.dtype).mul_(t)


def smoothed(movement: torch.Tensor) -> torch.Tensor:
    """Each element at least the smaller of the largest movements on its left and on its right.

    A lucky element borrows from its neighbours, while one large neighbour, or the edge of a block of large ones,
    lends nothing.
    """
    flat = movement.reshape(-1)
    if flat.numel() < 3:
        return movement
    reach = NEIGHBOURS_IN_LONG_ROWS if movement.shape[-1] >= LONG_ROW else NEIGHBOURS
    padded = torch.nn.functional.pad(flat, (reach, reach))
    windows = torch.nn.functional.max_pool1d(padded[None], reach, stride=1)[0]
    left, right = windows[: flat.numel()], windows[reach + 1 :]
    return torch.maximum(flat, torch.minimum(left, right)).reshape(movement.shape)


def measured(
    value: torch.Tensor, working: torch.Tensor, movement: Movement, extra: torch.Tensor | None
) -> torch.Tensor:
    """The largest distance from truth that an honest kernel may have, per element; finite where truth is."""
    info = torch.finfo(working.dtype)
    size = _finite(value.abs())
    # Approximate exponentials flush subnormals to zero; only float16 has answers of worth among its subnormals.
    smallest = info.smallest_normal * (info.eps if working.dtype is torch.float16 else 1.0)
    units = ROUNDING + movement.root / 2 if info.bits > 16 else 1.0
    lost = torch.maximum(loss(working, value), movement.lost)
    # `2 * sigmoid(2 * x) - 1` is an honest tanh: small answers beside large ones are right at the scale of the row.
    accumulator = info.eps if working.dtype is torch.float64 else 2.0**-23
    row = size.amax(-1, keepdim=True) * accumulator if size.dim() and size.numel() else torch.zeros(())
    bound = size.mul_(units * info.eps).add_(smallest).add_(row)
    bound.add_(smoothed(movement.largest)).add_(smoothed(lost), alpha=LOSS)
    if extra is not None:
        bound.add_(extra.double().expand(bound.shape), alpha=ACCUMULATION * accumulator)
    return bound


def agreed(policy: Policy, value: torch.Tensor, working: torch.Tensor) -> torch.Tensor:
    """The same by a team's policy; OperatorError for a dtype that the policy says nothing about."""
    rule = policy.tolerance(str(working.dtype).removeprefix("torch."))
    return _finite(value.abs()).mul_(rule.rtol).add_(rule.atol)


def user_bounds(op: LoadedOperator, inputs: CallInputs, count: int) -> list[torch.Tensor | None]:
    if op.bound is None:
        return [None] * count
    try:
        given = op.bound(*inputs.arguments())
    except USER_ERRORS as error:
        hint = "it takes the reference's arguments and returns a bound per output"
        raise placed(error, Path(op.info.path), "bound= raised ", hint) from error
    found = list(given) if isinstance(given, tuple | list) else [given]
    return [*found, *([None] * count)][:count]

"""The truth about one call, and how far from it an honest kernel may be.

Truth is the reference on inputs upcast to float64. How far an honest kernel may be from it is a property of the
operator at that input, so it is measured: the rounding of the output, plus a multiple of what the answer moves when
every input moves by its own rounding unit (several draws in float64, smoothed over neighbours), plus what the reference
itself loses in the working dtype. Where a published rule has one formula for all, it rejects honest kernels (cancelling
sums, bf16 attention) or accepts faults (a dropped element of a long sum).

Runs in the judge; `compare` holds answers against a `Truth`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.inputs import CallInputs, Case, materialise
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.operators.native import placed

NARROW = 4.0
"""Multiple of the measured movement: at 4x, 8 draws pass honest bf16 attention and see one key of 16,253 dropped."""
WIDE, WIDEST = 16.0, 256.0
"""The multiple where inputs are as wide as the accumulator: the root of the number of terms, between these. A sum of n
terms in sequence rounds n times, so its error grows with the root of n beside that of moved inputs."""
LOSS = 4.0
"""Multiple of what the reference itself loses in the working dtype, beyond the rounding of its answer."""
ROUNDING = 4.0
"""Units of eps granted to float32 and float64 answers, for approximate intrinsics; half the root of the number of terms
is added. Narrower answers get 1: they are rounded once from something wider."""
NEIGHBOURS = 4
"""Elements on each side that lend their movement to one whose draws were lucky."""
EXTRA_INTEGER_DRAWS = 8
"""More draws where answers are integers: each decides between two steps, and all of them together should see both."""
SMALL = 1 << 16
"""Input elements up to which extra draws cost nothing."""
ACCUMULATION = 64.0
"""A user's `bound=` counts this many float32 roundings of the magnitude it gives."""
RANDOM_STATE = 20
"""Seed of torch's generator while a reference runs: random references repeat themselves."""

TOLERANCES: dict[str, dict[torch.dtype, tuple[float, float]]] = {
    "torch": {
        torch.float16: (1e-3, 1e-5),
        torch.bfloat16: (1.6e-2, 1e-5),
        torch.float32: (1.3e-6, 1e-5),
        torch.float64: (1e-7, 1e-7),
    },
    "kernelbench": {
        torch.float16: (1e-2, 1e-2),
        torch.bfloat16: (1e-2, 1e-2),
        torch.float32: (1e-4, 1e-4),
        torch.float64: (1e-4, 1e-4),
    },
    "ascend": {
        torch.float16: (2**-7, 1e-7),
        torch.bfloat16: (2**-4, 1e-7),
        torch.float32: (2**-10, 1e-7),
        torch.float64: (2**-10, 1e-7),
    },
}
"""Acceptance rules by name, (rtol, atol) by output dtype: torch.testing.assert_close's defaults; KernelBench's
get_tolerance_for_precision; the Ascend precision standard's largest relative error (10 T). NaN and inf stay exact."""


@dataclass(frozen=True, eq=False)
class Expected:
    """One output: what it should be and what else is right."""

    name: str
    """`output 0`, or the name of a mutated argument."""
    returned: int | None
    """Position among the returned tensors; None for a mutated argument that the reference does not return."""
    mutated: int | None
    """Buffer number of the mutated argument it lives in."""
    truth: torch.Tensor
    """float64 (or complex128) where the output is floating, else the output's own dtype."""
    working: torch.Tensor
    """The reference's answer in the working dtype: gives dtype, shape and strides."""
    bound: torch.Tensor | None
    """Largest allowed |answer - truth| per element; None: the answer must equal truth, `working` or one of `seen`."""
    seen: tuple[torch.Tensor, ...]
    """For exact outputs: answers under perturbed inputs. For floats: one mask of elements where a draw gave NaN."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Everything needed to judge one call."""

    outputs: tuple[Expected, ...]
    single: bool
    """The reference returns one tensor, not a tuple."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Answer:
    """What one run of the reference gave."""

    returned: list[torch.Tensor]
    mutated: list[torch.Tensor]
    """Final values of the mutated buffers, in buffer order."""
    single: bool

    @property
    def all(self) -> list[torch.Tensor]:
        return [*self.returned, *self.mutated]


def truth(op: LoadedOperator, inputs: CallInputs, *, draws: int) -> Truth:
    """Runs the reference in the working dtype, in float64, and `draws` times on perturbed inputs.

    Raises:
        OperatorError: the reference raises, or returns something that is not a tensor or a tuple of tensors.
    """
    working_arguments = inputs.tensors()
    working = _run(op, inputs, working_arguments, op.reference)
    spared = [t.clone() for t in working.all]
    notes: tuple[str, ...] = ()
    doubles = [_upcast(b.fresh()) for b in inputs.buffers()]
    try:
        exact = _in_double(op, inputs, doubles)
        moved = _movements(op, inputs, doubles, exact, draws)
    except OperatorError as error:
        exact, moved = _Answer(*_as_double(working), working.single), None
        notes = (f"truth in the working dtype, for the reference does not run in float64: {error.message}",)
    extra = _user_bounds(op, inputs, len(exact.all))
    numbers = _mutated_buffers(op, inputs)
    outputs = []
    for i, (t, w) in enumerate(zip(exact.all, spared, strict=True)):
        n = len(working.returned)
        movement = None if moved is None else moved[i]
        alias = _alias(working.all[i], working_arguments, numbers)
        outputs.append(
            _expected(
                op,
                name=f"output {i}" if i < n else inputs.buffer_names()[numbers[i - n]],
                returned=i if i < n else None,
                mutated=alias if i < n else numbers[i - n],
                exact=t,
                working=_keep_strides(w, working.all[i]),
                movement=movement,
                extra=extra[i],
            )
        )
    return Truth(tuple(outputs), working.single, notes)


def _keep_strides(copy: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    """`clone` keeps strides of dense tensors only; a contract on strides needs nothing more."""
    return copy if copy.shape == original.shape else original


def refuse_trivial(op: LoadedOperator, seed: int) -> None:
    """Refuses an operator that needs no kernel: zeros, a constant or a copy of an input is accepted on a workload."""
    from kernelsmith.evaluate.compare import trivial_answer  # compare needs this module's types

    every = op.tolerance is not None or op.bound is not None or op.check is not None
    drawn = [materialise(op, Case(dims=w.dims, dtypes=w.dtypes, scalars=w.scalars), seed) for w in op.workloads]
    for inputs in drawn if every else [min(drawn, key=lambda d: d.nbytes)]:
        if found := trivial_answer(op, inputs, truth(op, inputs, draws=1)):
            raise OperatorError(
                f"{found} passes as the answer at {inputs.case.where().describe()}, so a check proves nothing",
                "tune for inputs whose answer depends on them: change values=, the workload, bound= or tolerance=",
                file=op.info.path,
            )


# ---------------------------------------------------------------- running the reference


class _Lifted(TorchFunctionMode):
    """float32 asked for by name becomes float64: `x.float()` in a reference means "compute wide"."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        wide = [torch.float64 if a is torch.float32 else a for a in args]
        named = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        return func(*wide, **named)


def _run(op: LoadedOperator, inputs: CallInputs, tensors: list[torch.Tensor], reference: Callable[..., Any]) -> _Answer:
    """One run under a fixed random state; whatever the reference raises is an OperatorError with its line."""
    from pathlib import Path

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_STATE)
        try:
            result = reference(*inputs.rebuilt(tensors))
        except Exception as error:
            doing = f"the reference raised at {inputs.case.where().describe()}: "
            raise placed(error, Path(op.info.path), doing) from error
    returned = [result] if isinstance(result, torch.Tensor) else [] if result is None else list(result)
    if not all(isinstance(r, torch.Tensor) for r in returned):
        kinds = ", ".join(type(r).__name__ for r in returned)
        raise OperatorError(
            f"the reference returned ({kinds})", "return a tensor or a tuple of tensors", file=op.info.path
        )
    mutated = [tensors[n] for n in _mutated_buffers(op, inputs)]
    return _Answer([r.detach() for r in returned], mutated, isinstance(result, torch.Tensor))


def _in_double(op: LoadedOperator, inputs: CallInputs, doubles: Sequence[torch.Tensor]) -> _Answer:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Lifted():
            return _run(op, inputs, [d.clone() for d in doubles], op.reference_in_double)
    finally:
        torch.set_default_dtype(before)


def _upcast(t: torch.Tensor) -> torch.Tensor:
    if t.is_complex():
        return t.to(torch.complex128)
    return t.contiguous().double() if t.is_floating_point() else t


def _as_double(answer: _Answer) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    return [_upcast(t) for t in answer.returned], [_upcast(t) for t in answer.mutated]


def _mutated_buffers(op: LoadedOperator, inputs: CallInputs) -> list[int]:
    return [i for i, name in enumerate(inputs.buffer_names()) if name in op.mutates]


def _alias(out: torch.Tensor, arguments: Sequence[torch.Tensor], numbers: Sequence[int]) -> int | None:
    """The mutated buffer that a returned tensor lives in."""
    for n in numbers:
        if out.untyped_storage().data_ptr() == arguments[n].untyped_storage().data_ptr():
            return n
    return None


# ---------------------------------------------------------------- the bound


@dataclass(frozen=True, eq=False)
class _Movement:
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


def _movements(
    op: LoadedOperator, inputs: CallInputs, doubles: Sequence[torch.Tensor], exact: _Answer, draws: int
) -> list[_Movement]:
    """Reference in float64 on inputs moved by a random sign times their rounding unit."""
    outputs = exact.all
    largest = [torch.zeros(t.shape, dtype=torch.float64) for t in outputs]
    lost = [torch.zeros(t.shape, dtype=torch.float64) for t in outputs]
    nan = [torch.zeros(t.shape, dtype=torch.bool) for t in outputs]
    seen: list[list[torch.Tensor]] = [[] for _ in outputs]
    integers = any(not _floating(t) for t in outputs)
    if integers and sum(d.numel() for d in doubles) <= SMALL:
        draws += EXTRA_INTEGER_DRAWS
    units = [_unit(b.view.dtype) for b in inputs.buffers()]
    if not any(units):
        draws = 0
    wide = max(units, default=0.0) <= 2.0**-24
    generator = torch.Generator().manual_seed(RANDOM_STATE)
    for _ in range(draws):
        moved = [_perturbed(d, u, generator) for d, u in zip(doubles, units, strict=True)]
        drawn = _in_double(op, inputs, moved).all
        for i, (d, t) in enumerate(zip(drawn, outputs, strict=True)):
            if d.shape != t.shape:
                continue
            if _floating(t):
                largest[i] = torch.maximum(largest[i], _finite((d - t).abs()))
                nan[i] |= d.isnan()
            elif not any(torch.equal(d, s) for s in seen[i]):
                seen[i].append(d)
        if wide:
            nearby = [_perturbed(d, 2 * u, generator) for d, u in zip(doubles, units, strict=True)]
            own = [n.to(getattr(torch, b.view.dtype)) for n, b in zip(nearby, inputs.buffers(), strict=True)]
            for i, (d, t) in enumerate(zip(_run(op, inputs, own, op.reference).all, outputs, strict=True)):
                if _floating(t) and d.shape == t.shape:
                    lost[i] = torch.maximum(lost[i], loss(d, t))
    found = []
    for i, t in enumerate(outputs):
        root = math.sqrt(_terms(doubles, t))
        multiple = min(max(root, WIDE), WIDEST) if wide else NARROW
        found.append(_Movement(largest[i] * multiple, lost[i], nan[i], tuple(seen[i]), root))
    return found


def _terms(inputs: Sequence[torch.Tensor], output: torch.Tensor) -> float:
    """About how many terms may meet in one element: the longest axis, or inputs per output where that is more."""
    floats = [t for t in inputs if _floating(t) and t.numel()]
    longest = max((size for t in floats for size in t.shape), default=1)
    ratio = max((t.numel() / max(1, output.numel()) for t in floats), default=1.0)
    return max(1.0, longest, ratio)


def _finite(distance: torch.Tensor) -> torch.Tensor:
    return torch.where(distance.isfinite(), distance, 0.0)


def loss(working: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """How far an answer in its own dtype is from truth beyond half a unit in its last place; 0 where not finite."""
    half = value.abs() * (torch.finfo(working.dtype).eps / 2)
    return _finite((working.to(value.dtype) - value).abs() - half).clamp(min=0)


def _unit(dtype: str) -> float:
    """Half the spacing of a dtype at 1; 0 for dtypes without rounding."""
    named = getattr(torch, dtype)
    return float(torch.finfo(named).eps) / 2 if named.is_floating_point or named.is_complex else 0.0


def _perturbed(t: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    if not unit:
        return t
    signs = torch.randint(0, 2, t.shape, generator=generator, dtype=torch.int8).to(torch.float64).mul_(2).sub_(1)
    return t * signs.mul_(unit).add_(1)


def _floating(t: torch.Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def smoothed(movement: torch.Tensor) -> torch.Tensor:
    """Each element at least the smaller of the largest movements on its left and on its right.

    A lucky element borrows from its neighbours, while one large neighbour, or the edge of a block of large ones,
    lends nothing.
    """
    flat = movement.reshape(-1)
    if flat.numel() < 3:
        return movement
    padded = torch.nn.functional.pad(flat, (NEIGHBOURS, NEIGHBOURS))
    windows = torch.nn.functional.max_pool1d(padded[None], NEIGHBOURS, stride=1)[0]
    left, right = windows[: flat.numel()], windows[NEIGHBOURS + 1 :]
    return torch.maximum(flat, torch.minimum(left, right)).reshape(movement.shape)


def _expected(
    op: LoadedOperator,
    *,
    name: str,
    returned: int | None,
    mutated: int | None,
    exact: torch.Tensor,
    working: torch.Tensor,
    movement: _Movement | None,
    extra: torch.Tensor | None,
) -> Expected:
    if exact.shape != working.shape:
        raise OperatorError(f"{name} has another shape in float64", "its shape must not depend on the dtype")
    if not _floating(working):
        seen = () if movement is None else movement.seen
        return Expected(name, returned, mutated, exact.to(working.dtype), working, None, seen)
    value = _upcast(exact) if _floating(exact) else exact.double()
    unknown = torch.zeros(value.shape, dtype=torch.bool) if movement is None else movement.nan
    bound = _bound(op, value, working, movement, extra)
    return Expected(name, returned, mutated, value, working, bound, (unknown,))


def _bound(
    op: LoadedOperator,
    value: torch.Tensor,
    working: torch.Tensor,
    movement: _Movement | None,
    extra: torch.Tensor | None,
) -> torch.Tensor:
    """The largest allowed distance from truth, per element; finite where truth is."""
    info = torch.finfo(working.dtype)
    size = torch.where(value.isfinite(), value.abs(), 0.0)
    if op.tolerance is not None or movement is None:
        relative, absolute = tolerance(op.tolerance or "torch", working.dtype)
        return size * relative + absolute
    smallest = info.smallest_normal if info.bits != 16 or info.max > 1e5 else torch.finfo(working.dtype).tiny * info.eps
    units = ROUNDING + movement.root / 2 if info.bits > 16 else 1.0
    rounding = size * (units * info.eps) + smallest
    lost = torch.maximum(loss(working, value), movement.lost)
    bound = rounding + smoothed(movement.largest) + LOSS * smoothed(lost)
    if extra is not None:
        unit = info.eps if working.dtype is torch.float64 else 2.0**-23
        bound = bound + ACCUMULATION * unit * extra.double().expand(bound.shape)
    return bound


def tolerance(name: str, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol) of an acceptance rule; OperatorError for a name that is not known."""
    if name not in TOLERANCES:
        raise OperatorError(f"tolerance={name!r} is not known", "known: " + ", ".join(TOLERANCES))
    rule = TOLERANCES[name]
    return rule.get(dtype, rule[torch.bfloat16])


def _user_bounds(op: LoadedOperator, inputs: CallInputs, count: int) -> list[torch.Tensor | None]:
    if op.bound is None:
        return [None] * count
    given = op.bound(*inputs.arguments())
    found = list(given) if isinstance(given, tuple | list) else [given]
    return [*found, *([None] * count)][:count]

"""The words of an operator file: `@operator`, `tensor`, `tensors`, `scalar`, `workload`.

Declarations only, checked as far as one declaration can be; `native` checks them together and adds file and line to
every OperatorError. Torch-free.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from kernelsmith.base import Scalar
from kernelsmith.errors import OperatorError
from kernelsmith.operators.expressions import Dim, Expression, Predicate, Relation, expression, relation
from kernelsmith.plan import ITEM_SIZES

E = TypeVar("E", bound=StrEnum)


class Layout(StrEnum):
    """How a tensor lies in memory."""

    CONTIGUOUS = "contiguous"
    ROWS_SLICED = "rows sliced"
    """Rows further apart than their width, unit last stride: `wide[:, :N]`."""
    STEPPED = "stepped"
    """Every second element along the last dim: `wide[..., ::2]`."""
    TRANSPOSED = "transposed"
    """The last two dims swapped in memory."""
    EXPANDED = "expanded"
    """First dim with stride 0, as `expand` makes it."""
    OFFSET = "offset"
    """Contiguous, but one element past an aligned address."""
    FAR = "far rows"
    """Rows 2**30 elements apart, over memory of which only the rows exist: offsets pass what 32 bits hold."""


class Word(StrEnum):
    """What the values of a tensor may or must be. Floats are finite and of either sign unless told otherwise."""

    ANY = "any"
    """NaN and both infinities may occur."""
    NAN = "nan"
    INF = "inf"
    MINUS_INF = "-inf"
    POSITIVE = "positive"
    SORTED = "sorted"
    """Ascending along the last dim."""
    DISTINCT = "distinct"
    """No value twice along the last dim (no ties, a permutation)."""
    OFFSETS = "offsets"
    """Ascending integers from `low` to `high`, both reached, as in `cu_seqlens`; empty segments may occur."""


@dataclass(frozen=True, eq=False)
class TensorSpec:
    """A declared tensor (or list of tensors, if `count` is set)."""

    shape: tuple[Expression, ...]
    dtypes: tuple[str, ...]
    """Alternatives; empty when `same_as` names the argument it follows."""
    same_as: str | None
    layouts: tuple[Layout, ...]
    words: frozenset[Word]
    low: Expression | float | None
    """Smallest value."""
    high: Expression | float | None
    """Largest value of floats; integers stay below it, as indices do."""
    optional: bool
    count: Expression | None = None

    @property
    def near(self) -> tuple[Layout, ...]:
        """Its layouts without rows far apart, which take terabytes of addresses; contiguous where none is left."""
        return tuple(one for one in self.layouts if one is not Layout.FAR) or (Layout.CONTIGUOUS,)

    def describe_values(self) -> str:
        """The allowed values in words, for prompts and reports."""
        parts = [word.value for word in Word if word in self.words]
        if self.low is not None or self.high is not None:
            parts.append(f"from {self.low} to {self.high}" if self.low is not None else f"up to {self.high}")
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class ScalarSpec:
    """A declared Python number, flag or string."""

    choices: tuple[Scalar, ...]
    """All values it may take; empty when `low` and `high` bound it."""
    kind: type
    low: Expression | float | None
    high: Expression | float | None
    """Both bounds included."""
    optional: bool


@dataclass(frozen=True)
class WorkloadSpec:
    """A tuned point as written; `native` sorts the names into dims, dtypes and scalars."""

    names: dict[str, Scalar | None]
    weight: float
    line: int


@dataclass(frozen=True, eq=False)
class Operator:
    """What `@operator` makes of a reference; still callable as the plain function."""

    function: Callable[..., Any]
    arguments: dict[str, TensorSpec | ScalarSpec]
    workloads: tuple[WorkloadSpec, ...]
    relations: tuple[Relation | Predicate, ...]
    dtype_sets: tuple[dict[str, str], ...]
    mutates: tuple[str, ...]
    plan_relevant: tuple[str, ...]
    bound: Callable[..., Any] | None
    check: Callable[..., bool] | None
    properties: Callable[..., bool] | None
    baseline: Callable[..., Any] | None
    tolerance: str | None
    line: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def tensor(
    *shape: Dim | Expression | int,
    dtypes: str | object | Sequence[object] = ("float32",),
    layouts: str | Sequence[str] = ("contiguous",),
    values: str | Sequence[str] = (),
    low: Expression | float | None = None,
    high: Expression | float | None = None,
    optional: bool = False,
) -> TensorSpec:
    """A tensor argument.

    Args:
        shape: sizes, as Dims, integers or expressions of them; none for a 0-d tensor.
        dtypes: names (`"bfloat16"`) or torch dtypes it may have, or `"same as x"` to follow argument `x`.
        layouts: any of `contiguous`, `rows sliced`, `stepped`, `transposed`, `expanded`, `offset`,
            `far rows`.
        values: any of `any`, `nan`, `inf`, `-inf`, `positive`, `sorted`, `distinct`, `offsets`; finite unless told.
        low, high: range of the values; integers stay below `high` (indices: `low=0, high=N`), floats may reach it.
        optional: `None` is allowed.
    """
    names, same_as = _dtypes(dtypes)
    return TensorSpec(
        shape=tuple(expression(size) for size in shape),
        dtypes=names,
        same_as=same_as,
        layouts=_members(Layout, layouts, "layouts") or (Layout.CONTIGUOUS,),
        words=frozenset(_members(Word, values, "values")),
        low=low,
        high=high,
        optional=optional,
    )


def tensors(*shape: Dim | Expression | int, count: Dim | Expression | int, **options: Any) -> TensorSpec:
    """A list of `count` tensors of one declaration; `options` as for `tensor`."""
    return replace(tensor(*shape, **options), count=expression(count))


def scalar(
    kind: type = float,
    low: Expression | float | None = None,
    high: Expression | float | None = None,
    *,
    choices: Sequence[Scalar] = (),
    optional: bool = False,
) -> ScalarSpec:
    """A Python number, flag or string: one of `choices`, or of type `kind` from `low` to `high` (both included)."""
    if choices:
        kind = type(choices[0])
    elif kind is bool:
        choices = (False, True)
    elif kind is str:
        raise OperatorError("scalar(str) needs choices=", "list the strings it may be")
    elif low is None or high is None:
        raise OperatorError(f"scalar({kind.__name__}) needs low and high, or choices=", "scalar(float, 1e-6, 1e-3)")
    return ScalarSpec(tuple(choices), kind, low, high, optional)


def workload(*, weight: float = 1.0, **names: object) -> WorkloadSpec:
    """A point to tune for: a number per dim, a dtype per tensor where there is a choice, a value per scalar.

    `weight` says how much it counts in the score.
    """
    if not weight > 0:
        raise OperatorError(f"workload(weight={weight}): must be positive")
    plain: dict[str, Scalar | None] = {}
    for name, value in names.items():
        text = str(value).removeprefix("torch.")
        plain[name] = value if isinstance(value, bool | int | float | str) or value is None else text
    return WorkloadSpec(plain, weight, sys._getframe(1).f_lineno)


def operator(
    *,
    workloads: Sequence[WorkloadSpec],
    where: object = (),
    dtypes: Sequence[Mapping[str, object]] = (),
    mutates: Sequence[str] = (),
    plan_relevant: Sequence[str] = (),
    tolerance: str | None = None,
    **arguments: Any,
) -> Callable[[Callable[..., Any]], Operator]:
    """Declares the decorated function as the reference of an operator.

    Args:
        workloads: the points to tune for.
        where: relation, callable of dim names, or a list of them, that every legal shape satisfies.
        dtypes: legal combinations across arguments, `[{"x": "float16", "w": "float32"}, ...]`; all of them otherwise.
        mutates: arguments the operator changes in place.
        plan_relevant: arguments whose contents the launch plan may depend on, such as `cu_seqlens`.
        tolerance: name of a tolerance policy that answers are held to instead of the measured bound: `torch`,
            `kernelbench`, `ascend`, or a team's own, `[tolerances.NAME]` in its settings.
        arguments: one declaration per parameter; besides, the callables `bound(*inputs)` (sum of magnitudes behind
            each output element), `check(output, expected, *inputs)` (for answers that are not unique),
            `properties(call, *inputs)` (may call the candidate again), `baseline(*inputs)` (the kernel in use today).
    """
    line = sys._getframe(1).f_lineno
    hooks = {name: arguments.pop(name, None) for name in ("bound", "check", "properties", "baseline")}
    for name, hook in hooks.items():
        if hook is not None and not callable(hook):
            raise OperatorError(f"{name}= must be a callable, got {hook!r}")
    for name, spec in arguments.items():
        if not isinstance(spec, TensorSpec | ScalarSpec):
            raise OperatorError(f"{name}={spec!r} is neither tensor(...), tensors(...) nor scalar(...)")
    relations = where if isinstance(where, list | tuple) else (where,)

    def declare(function: Callable[..., Any]) -> Operator:
        return Operator(
            function=function,
            arguments=dict(arguments),
            workloads=tuple(workloads),
            relations=tuple(relation(r) for r in relations),
            dtype_sets=tuple({k: _dtype(v) for k, v in combination.items()} for combination in dtypes),
            mutates=_names(mutates),
            plan_relevant=_names(plan_relevant),
            tolerance=tolerance,
            line=inspect.unwrap(function).__code__.co_firstlineno if inspect.isfunction(function) else line,
            **hooks,
        )

    return declare


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _dtypes(given: object) -> tuple[tuple[str, ...], str | None]:
    if isinstance(given, str) and given.startswith("same as "):
        return (), given.removeprefix("same as ").strip()
    many = given if isinstance(given, list | tuple) else (given,)
    if not many:
        raise OperatorError("dtypes=() leaves no dtype", 'for example dtypes=("float32", "bfloat16")')
    return tuple(_dtype(one) for one in many), None


def _dtype(given: object) -> str:
    name = str(given).removeprefix("torch.")
    if name not in ITEM_SIZES:
        raise OperatorError(f"unknown dtype {name!r}", "known: " + ", ".join(ITEM_SIZES))
    return name


def _members(kind: type[E], given: str | Sequence[str], what: str) -> tuple[E, ...]:
    many = (given,) if isinstance(given, str) else tuple(given)
    for one in many:
        if one not in list(kind):
            raise OperatorError(f"{what}: unknown {one!r}", "known: " + ", ".join(kind))
    return tuple(kind(one) for one in many)

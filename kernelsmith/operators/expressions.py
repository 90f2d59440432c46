"""Symbolic sizes: `Dim`, integer arithmetic on dims, and relations between them.

An operator's input space is written with these, so that the oracle can leave the tuned shapes and a guard can say where
a kernel is proven. Comparing expressions makes a `Relation`; it has no truth value before its dims have numbers.
"""

from __future__ import annotations

import inspect
import operator as op
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from kernelsmith.errors import OperatorError

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": op.add,
    "-": op.sub,
    "*": op.mul,
    "//": op.floordiv,
    "%": op.mod,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": op.eq,
    "!=": op.ne,
    "<": op.lt,
    "<=": op.le,
    ">": op.gt,
    ">=": op.ge,
}


class Expression:
    """An integer made of dims and numbers by `+ - * // %`; comparisons give a `Relation`."""

    __hash__: ClassVar[None]  # type: ignore[assignment]  # equality is symbolic, so nothing can be looked up by it

    def value(self, dims: Mapping[str, int]) -> int:
        """The number at these dims; ZeroDivisionError where a divisor is 0."""
        raise TypeError(f"{type(self).__name__} has no value")

    @property
    def names(self) -> frozenset[str]:
        """Names of the dims it is made of."""
        return frozenset(dim.name for dim in self.dims())

    def dims(self) -> tuple[Dim, ...]:
        return ()

    def __add__(self, other: Expression | int) -> Expression:
        return _Binary("+", self, expression(other))

    def __radd__(self, other: int) -> Expression:
        return _Binary("+", expression(other), self)

    def __sub__(self, other: Expression | int) -> Expression:
        return _Binary("-", self, expression(other))

    def __rsub__(self, other: int) -> Expression:
        return _Binary("-", expression(other), self)

    def __mul__(self, other: Expression | int) -> Expression:
        return _Binary("*", self, expression(other))

    def __rmul__(self, other: int) -> Expression:
        return _Binary("*", expression(other), self)

    def __floordiv__(self, other: Expression | int) -> Expression:
        return _Binary("//", self, expression(other))

    def __rfloordiv__(self, other: int) -> Expression:
        return _Binary("//", expression(other), self)

    def __mod__(self, other: Expression | int) -> Expression:
        return _Binary("%", self, expression(other))

    def __eq__(self, other: object) -> Relation:  # type: ignore[override]
        return Relation("==", self, expression(other))

    def __ne__(self, other: object) -> Relation:  # type: ignore[override]
        return Relation("!=", self, expression(other))

    def __lt__(self, other: Expression | int) -> Relation:
        return Relation("<", self, expression(other))

    def __le__(self, other: Expression | int) -> Relation:
        return Relation("<=", self, expression(other))

    def __gt__(self, other: Expression | int) -> Relation:
        return Relation(">", self, expression(other))

    def __ge__(self, other: Expression | int) -> Relation:
        return Relation(">=", self, expression(other))


class Dim(Expression):
    """A named size that may be anything from `low` to `high`, both included."""

    def __init__(self, name: str, low: int = 1, high: int = 65536) -> None:
        if not name.isidentifier():
            raise OperatorError(f"Dim({name!r}): the name must be a Python identifier")
        if not 0 <= low <= high:
            raise OperatorError(f"Dim({name!r}, {low}, {high}): needs 0 <= low <= high")
        self.name, self.low, self.high = name, low, high

    def value(self, dims: Mapping[str, int]) -> int:
        return dims[self.name]

    def dims(self) -> tuple[Dim, ...]:
        return (self,)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Dim({self.name!r}, {self.low}, {self.high})"


class _Number(Expression):
    def __init__(self, number: int) -> None:
        self.number = number

    def value(self, dims: Mapping[str, int]) -> int:
        return self.number

    def __str__(self) -> str:
        return str(self.number)


class _Binary(Expression):
    def __init__(self, symbol: str, left: Expression, right: Expression) -> None:
        self.symbol, self.left, self.right = symbol, left, right

    def value(self, dims: Mapping[str, int]) -> int:
        return _ARITHMETIC[self.symbol](self.left.value(dims), self.right.value(dims))

    def dims(self) -> tuple[Dim, ...]:
        return self.left.dims() + self.right.dims()

    def __str__(self) -> str:
        sides = (f"({s})" if isinstance(s, _Binary) else str(s) for s in (self.left, self.right))
        return f" {self.symbol} ".join(sides)


def expression(value: object) -> Expression:
    """`value` as an Expression; OperatorError for anything but an integer or an Expression."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return _Number(value)
    raise OperatorError(f"{value!r} is not a size", hint="sizes are integers, Dims and + - * // % of them")


@dataclass(frozen=True, eq=False)
class Relation:
    """A comparison between two expressions, such as `K % 8 == 0`."""

    symbol: str
    left: Expression
    right: Expression

    def holds(self, dims: Mapping[str, int]) -> bool:
        """Whether it is true at these dims; a division by zero makes it false."""
        try:
            return _COMPARISONS[self.symbol](self.left.value(dims), self.right.value(dims))
        except ZeroDivisionError:
            return False

    def dims(self) -> tuple[Dim, ...]:
        return self.left.dims() + self.right.dims()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dims it is about."""
        return tuple(dim.name for dim in self.dims())

    def __str__(self) -> str:
        return f"{self.left} {self.symbol} {self.right}"

    def __bool__(self) -> bool:
        raise OperatorError(
            f"'{self}' has no truth value before its dims have numbers",
            hint="give several relations as a list: where=[A <= B, B <= C]; or a callable: where=lambda A, B: ...",
        )


@dataclass(frozen=True, eq=False)
class Predicate:
    """A relation given as a callable; its parameters are dim names."""

    function: Callable[..., bool]
    names: tuple[str, ...]
    text: str

    def holds(self, dims: Mapping[str, int]) -> bool:
        try:
            return bool(self.function(**{name: dims[name] for name in self.names}))
        except ZeroDivisionError:
            return False

    def dims(self) -> tuple[Dim, ...]:
        return ()

    def __str__(self) -> str:
        return self.text


def relation(value: object) -> Relation | Predicate:
    """`value` as something that holds or not; OperatorError for anything but a Relation or a callable of dim names."""
    if isinstance(value, Relation | Predicate):
        return value
    if callable(value):
        names = tuple(inspect.signature(value).parameters)
        return Predicate(value, names, _text(value))
    raise OperatorError(f"where={value!r}: neither a relation between dims nor a callable of dim names")


def _text(function: Callable[..., object]) -> str:
    """Source of a lambda as far as it is one line, else the callable's name."""
    try:
        line = inspect.getsource(function).strip()
    except (OSError, TypeError):
        line = ""
    start = line.find("lambda")
    if start < 0 or "\n" in line:
        return getattr(function, "__name__", "relation")
    body, depth = line[start:], 0
    for position, character in enumerate(body):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0 or (depth == 0 and character == "," and ":" in body[:position]):
            return body[:position]
    return body

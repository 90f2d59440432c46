"""What one loop iteration knows about a value: the shapes a KS_W-wide piece of a tensor can take in the generated code.

A loop's vector dimension runs over x = 0, KS_W, 2*KS_W, ... Everything but `Vector` and `Offsets` is the same for all
x, so its code stands before the loop; a prefix mask becomes the loop's trip count and a linear pointer a vector load.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Uniform:
    """Every lane holds the scalar expression `code`; for a pointer it is a `char *`."""

    code: str


@dataclass(frozen=True)
class Linear:
    """Element x is `base + stride * x`: an integer in its own width, or a pointer whose stride counts elements."""

    base: str
    stride: int | str


@dataclass(frozen=True)
class Digit:
    """The index `x / step % size`: of a dimension too short to be walked in vectors alone (see `nest`)."""

    step: int
    size: int


@dataclass(frozen=True)
class Prefix:
    """A predicate that holds exactly for x < `count` (an i64 expression)."""

    count: str


@dataclass(frozen=True)
class Vector:
    """`code` is a GCC vector of KS_W lanes; a predicate is vi32 with 0 or -1."""

    code: str


@dataclass(frozen=True)
class Offsets:
    """Pointers `base + lanes[l]` elements; `lanes` is a vi32 (`wide` false) or vi64.

    `in_bytes`: the (wide) lanes count bytes, since an address made from an integer may be any number until it is used.
    """

    base: str
    lanes: str
    wide: bool
    in_bytes: bool = False


Rep = Uniform | Linear | Digit | Prefix | Vector | Offsets
ZERO = Uniform("0")


def uniform_code(rep: Rep) -> str:
    """The scalar expression of a form that must be one, as every form is in a loop without vectors."""
    if not isinstance(rep, Uniform):
        raise TypeError(f"{rep} is not the same in every lane")
    return rep.code

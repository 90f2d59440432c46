"""The typed form of a TTIR function.

Plain frozen data: the parser builds it, the analyses and the emitter read it, nobody changes it. A scalar is a tensor
of rank 0, so one rule serves both. Invariant: every operand of an operation is a result of an earlier operation or an
argument of an enclosing block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Element(Enum):
    """Element types; the value is TTIR's spelling."""

    I1 = "i1"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    F8E4M3FN = "f8E4M3FN"
    F8E5M2 = "f8E5M2"
    F8E4M3FNUZ = "f8E4M3FNUZ"
    F8E5M2FNUZ = "f8E5M2FNUZ"

    @property
    def bits(self) -> int:
        """Width in bits; a predicate has one."""
        return 8 if self.is_f8 else int(self.value.lstrip("bfi"))

    @property
    def bytes(self) -> int:
        """Size of one element in memory; a predicate takes a byte."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.value[0] in "fb"

    @property
    def is_f8(self) -> bool:
        """8-bit floats, which are held as their bits and computed in float32."""
        return self.value.startswith("f8")

    @property
    def is_half(self) -> bool:
        """16-bit floats, which are computed in float32 and rounded after every operation."""
        return self in (Element.F16, Element.BF16)


@dataclass(frozen=True)
class Type:
    """A scalar (shape `()`) or tensor of `element`, or of pointers to `element`.

    A pointer to pointers has the `element` that holds an address, and in `target` what those pointers point to.
    """

    element: Element
    shape: tuple[int, ...] = ()
    pointer: bool = False
    target: Element | None = None

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        return self.element.is_float and not self.pointer

    @property
    def is_integer(self) -> bool:
        return not self.element.is_float and not self.pointer

    @property
    def is_predicate(self) -> bool:
        return self.element is Element.I1 and not self.pointer

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return Type(self.element, shape, self.pointer, self.target)

    def with_element(self, element: Element) -> Type:
        return Type(element, self.shape)

    @property
    def pointee(self) -> Type:
        """What a load through this pointer type yields."""
        if self.target is not None:
            return Type(self.target, self.shape, pointer=True)
        return Type(self.element, self.shape)

    def __str__(self) -> str:
        element = f"!tt.ptr<{self.pointee.with_shape(())}>" if self.pointer else self.element.value
        return f"tensor<{'x'.join(map(str, self.shape))}x{element}>" if self.shape else element


@dataclass(frozen=True, eq=False)
class Value:
    """One SSA value, compared by identity. `name` is the kernel's own name for it where TTIR kept one."""

    name: str
    type: Type


@dataclass(frozen=True)
class Dense:
    """A constant's elements as bit patterns (two's complement or IEEE), row-major; one entry means a splat."""

    bits: tuple[int, ...]


Attribute = int | str | Dense | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Successor:
    """A branch target and the values for its block arguments."""

    block: str
    operands: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Op:
    """One operation. `words` are the bare keywords of its custom syntax, in order (`slt`, `fadd`, `x`)."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()
    successors: tuple[Successor, ...] = ()
    location: str | None = None

    @property
    def result(self) -> Value:
        return self.results[0]

    @property
    def reads(self) -> list[Value]:
        """The operands, and what branches hand on."""
        return [*self.operands, *(value for successor in self.successors for value in successor.operands)]

    @property
    def order(self) -> list[int]:
        """Of a tt.trans, `array<i32: 1, 0>`: which axis of the operand each of the result's is. Raises ValueError."""
        return [int(number) for number in self.text("order").rpartition(":")[2].split(",")]

    def integer(self, key: str, default: int = 0) -> int:
        value = self.attributes.get(key, default)
        return value if isinstance(value, int) else default

    def text(self, key: str, default: str = "") -> str:
        value = self.attributes.get(key, default)
        return value if isinstance(value, str) else default


@dataclass(frozen=True, eq=False)
class Block:
    label: str
    arguments: tuple[Value, ...]
    ops: tuple[Op, ...]


@dataclass(frozen=True, eq=False)
class Region:
    """Blocks in textual order; the first is the entry. Only a function's body has more than one."""

    blocks: tuple[Block, ...]

    @property
    def entry(self) -> Block:
        return self.blocks[0]


@dataclass(frozen=True, eq=False)
class Function:
    name: str
    arguments: tuple[Value, ...]
    results: tuple[Type, ...]
    body: Region
    public: bool


@dataclass(frozen=True, eq=False)
class Module:
    functions: Mapping[str, Function]

    @property
    def kernel(self) -> Function:
        """The one public function."""
        return next(function for function in self.functions.values() if function.public)


def walk(region: Region) -> Iterator[Op]:
    """Every operation of a region, nested ones included, in textual order."""
    for block in region.blocks:
        for op in block.ops:
            yield op
            for inner in op.regions:
                yield from walk(inner)

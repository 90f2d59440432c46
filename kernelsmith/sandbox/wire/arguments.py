"""A call's arguments as data: regions of an arena, and Python values that refer to them.

The judge writes arguments, `recorder` turns them into what a host function is called with. Invariant: no tensor in
`Arguments` reaches outside of its region.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.plan import ITEM_SIZES, View

ALIGNMENT = 64
"""Bytes; where a region of an arena may begin (what Triton specialises on follows from the storage offset alone)."""
MAX_TEXT_CHARS = 64 << 10
MAX_PARTS = 64


class Part(Frozen):
    """Some bytes of a region, counted from its first."""

    start: int = Field(ge=0)
    nbytes: int = Field(ge=0)


class Region(Frozen):
    """Bytes of an arena: the storage of one tensor, or of several that share it."""

    offset: int = Field(ge=0, multiple_of=ALIGNMENT)
    nbytes: int = Field(ge=0)
    parts: tuple[Part, ...] = Field(default=(), max_length=MAX_PARTS)
    """Where only some of it is ever looked at: that, in order. The rest is memory that does not exist until a fault
    touches it."""

    def model_post_init(self, context: object) -> None:
        at = 0
        for part in self.parts:
            if part.start < at:
                raise ValueError("parts of a region overlap or are out of order")
            at = part.start + part.nbytes
        if at > self.nbytes:
            raise ValueError("a part reaches out of its region")

    @property
    def held(self) -> tuple[Part, ...]:
        """What of it is copied: its parts, or all."""
        return self.parts or (Part(start=0, nbytes=self.nbytes),)


class TensorValue(Frozen):
    """A tensor; `view.buffer` is the position of its storage in the message's `regions`."""

    kind: Literal["tensor"] = "tensor"
    view: View


class IntegerValue(Frozen):
    kind: Literal["integer"] = "integer"
    value: int


class BoolValue(Frozen):
    kind: Literal["bool"] = "bool"
    value: bool


class FloatValue(Frozen):
    """`text` is what `repr` gives, so that nan, inf and every bit survive JSON."""

    kind: Literal["float"] = "float"
    text: str = Field(max_length=64)

    def model_post_init(self, context: object) -> None:
        float(self.text)


class TextValue(Frozen):
    kind: Literal["text"] = "text"
    value: str = Field(max_length=MAX_TEXT_CHARS)


class DtypeValue(Frozen):
    """A torch dtype by its own name, for example `bfloat16`."""

    kind: Literal["dtype"] = "dtype"
    name: str

    def model_post_init(self, context: object) -> None:
        if self.name not in ITEM_SIZES:
            raise ValueError(f"dtype {self.name!r} cannot cross the boundary")


class NoneValue(Frozen):
    kind: Literal["none"] = "none"


class ListValue(Frozen):
    """A list, or a tuple, of values."""

    kind: Literal["list"] = "list"
    items: tuple[Value, ...]
    is_tuple: bool = False


Value = Annotated[
    TensorValue | IntegerValue | BoolValue | FloatValue | TextValue | DtypeValue | NoneValue | ListValue,
    Field(discriminator="kind"),
]
ListValue.model_rebuild()


class Named(Frozen):
    """An argument given by keyword."""

    name: str
    value: Value


class Arguments(Frozen):
    """The arguments of one call. Regions are in the order of first use by a tensor: a plan's input buffer `index`."""

    regions: tuple[Region, ...] = ()
    positional: tuple[Value, ...] = ()
    keywords: tuple[Named, ...] = ()

    def model_post_init(self, context: object) -> None:
        for view in self.views():
            if view.buffer >= len(self.regions) or view.extent > self.regions[view.buffer].nbytes:
                raise ValueError(f"a tensor reaches outside of region {view.buffer}")

    def views(self) -> list[View]:
        """Every tensor in the arguments, in order."""
        found: list[View] = []
        waiting: list[Value] = [*self.positional, *(k.value for k in self.keywords)][::-1]
        while waiting:
            value = waiting.pop()
            if isinstance(value, TensorValue):
                found.append(value.view)
            elif isinstance(value, ListValue):
                waiting += value.items[::-1]
        return found


def pack(sizes: list[int], start: int = 0) -> list[Region]:
    """Regions of the given sizes one after the other, each aligned; the end of the last one is the arena's size."""
    regions: list[Region] = []
    for nbytes in sizes:
        start = -(-start // ALIGNMENT) * ALIGNMENT
        regions.append(Region(offset=start, nbytes=nbytes))
        start += nbytes
    return regions

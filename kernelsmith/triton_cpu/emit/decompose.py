"""Matrix products of narrow types in terms of simpler operations, before anything else looks at the function.

A tt.dot of 8-bit floats multiplies them as bf16, which is exact. In a tt.dot_scaled, operands become fp16 if one of
them is, bf16 otherwise, times their scales, and a tt.dot multiplies them in float32: the arithmetic, roundings
included, that Triton itself falls back to on GPUs without block-scaled products (`DecomposeScaledBlocked` in its
TritonGPU transforms). Invariant: afterwards no matrix product has 8-bit floats. Called by `codegen`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kernelsmith.triton_cpu.errors import TtirError
from kernelsmith.triton_cpu.read.formats import FORMATS
from kernelsmith.triton_cpu.read.ir import (
    Attribute,
    Block,
    Dense,
    Element,
    Function,
    Module,
    Op,
    Region,
    Type,
    Value,
    walk,
)

_NAN_SCALE = 0xFF  # OCP Microscaling formats 1.0: an E8M0 scale is 2^(byte - 127), or NaN


def decompose(module: Module) -> Module:
    """The module with such products replaced."""
    return Module({name: _function(function) for name, function in module.functions.items()})


def _function(function: Function) -> Function:
    if any(map(_is_narrow, walk(function.body))):
        return replace(function, body=_region(function.body))
    return function


def _is_narrow(op: Op) -> bool:
    operands = op.operands[:2]
    return op.name == "tt.dot_scaled" or (op.name == "tt.dot" and any(value.type.element.is_f8 for value in operands))


def _region(region: Region) -> Region:
    blocks: list[Block] = []
    for block in region.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if _is_narrow(op):
                ops += _plain_product(op) if op.name == "tt.dot" else _scaled_product(op)
            else:
                ops.append(replace(op, regions=tuple(map(_region, op.regions))) if op.regions else op)
        blocks.append(replace(block, ops=tuple(ops)))
    return Region(tuple(blocks))


@dataclass
class _Builder:
    """Appends operations; each method returns the result."""

    location: str | None
    ops: list[Op] = field(default_factory=list)

    def add(
        self,
        name: str,
        operands: tuple[Value, ...],
        kind: Type,
        attributes: Mapping[str, Attribute] | None = None,
        words: tuple[str, ...] = (),
    ) -> Value:
        value = Value(name, kind)
        self.ops.append(Op(name, operands, (value,), attributes or {}, words, location=self.location))
        return value

    def constant(self, kind: Type, bits: int) -> Value:
        return self.add("arith.constant", (), kind, {"value": Dense((bits,))})

    def with_constant(self, name: str, value: Value, bits: int) -> Value:
        return self.add(name, (value, self.constant(value.type, bits)), value.type)

    def cast(self, name: str, value: Value, element: Element) -> Value:
        if value.type.element is element:
            return value
        return self.add(name, (value,), value.type.with_element(element))

    def transposed(self, value: Value, order: tuple[int, ...]) -> Value:
        kind = value.type.with_shape(tuple(value.type.shape[number] for number in order))
        return self.add("tt.trans", (value,), kind, {"order": ":" + ",".join(map(str, order))})

    def merged(self, value: Value, dimension: int) -> Value:
        """A trailing dimension becomes the faster part of `dimension`."""
        *rest, extra = value.type.shape
        last = len(rest)
        order = (*range(dimension + 1), last, *range(dimension + 1, last))
        rest[dimension] *= extra
        return self.add("tt.reshape", (self.transposed(value, order),), value.type.with_shape(tuple(rest)))

    def repeated(self, value: Value, dimension: int, count: int) -> Value:
        """Every element `count` times along a dimension."""
        shape = value.type.shape
        single = self.add("tt.expand_dims", (value,), value.type.with_shape((*shape, 1)), {"axis": len(shape)})
        wide = self.add("tt.broadcast", (single,), value.type.with_shape((*shape, count)))
        return self.merged(wide, dimension)


@dataclass(frozen=True)
class _Operand:
    """One side of the product; `depth` is the dimension that is summed over, `packed` that of the e2m1 pairs."""

    value: Value
    scale: Value | None
    format: str
    depth: int
    packed: int


def _plain_product(op: Op) -> list[Op]:
    builder = _Builder(op.location)
    left, right = (builder.cast("tt.fp_to_fp", value, Element.BF16) for value in op.operands[:2])
    return [*builder.ops, replace(op, operands=(left, right, *op.operands[2:]))]


def _scaled_product(op: Op) -> list[Op]:
    scaled = op.attributes.get("scaled", ())
    rest = list(op.operands)
    sides: list[_Operand] = []
    for name in ("lhs", "rhs"):
        at = len(op.operands) - len(rest)
        value = rest.pop(0)
        scale = rest.pop(0) if isinstance(scaled, tuple) and at in scaled else None
        rank = len(value.type.shape)
        depth, other = (rank - 1, rank - 2) if name == "lhs" else (rank - 2, rank - 1)
        packed = depth if op.integer(f"{name}_k_pack", 1) else other
        sides.append(_Operand(value, scale, op.text(name), depth, packed))
    if len(rest) != 1:
        raise TtirError("tt.dot_scaled takes two operands, their scales and what it adds to")
    builder = _Builder(op.location)
    compute = Element.F16 if any(side.format == "fp16" for side in sides) else Element.BF16
    fast = bool(op.integer("fastMath"))
    operands = [_scaled(builder, side, compute, fast=fast) for side in sides]
    return [*builder.ops, Op("tt.dot", (*operands, rest[0]), op.results, location=op.location)]


def _scaled(builder: _Builder, side: _Operand, compute: Element, *, fast: bool) -> Value:
    value = _unpacked(builder, side) if side.format == "e2m1" else side.value
    value = builder.cast("tt.fp_to_fp", value, compute)
    if side.format == "e2m1":
        form = FORMATS[compute]
        value = builder.with_constant("arith.mulf", value, (6 + form.bias) << form.mantissa)
    if side.scale is None:
        return value
    scale = side.scale
    rank = len(scale.type.shape)
    if side.depth != rank - 1:
        scale = builder.transposed(scale, (*range(rank - 2), rank - 1, rank - 2))
    count = value.type.shape[side.depth] // scale.type.shape[side.depth]
    factor = builder.repeated(_scale_as(builder, scale, compute), side.depth, count)
    product = builder.add("arith.mulf", (value, factor), value.type)
    if fast:
        return product
    kind = scale.type.with_element(Element.I1)
    if scale.type.is_float:
        odd = builder.add("arith.cmpf", (scale, scale), kind, words=("uno",))
    else:
        odd = builder.add("arith.cmpi", (scale, builder.constant(scale.type, _NAN_SCALE)), kind, words=("eq",))
    nan = builder.constant(product.type, FORMATS[compute].nan)
    return builder.add("arith.select", (builder.repeated(odd, side.depth, count), nan, product), product.type)


def _unpacked(builder: _Builder, side: _Operand) -> Value:
    """Two e2m1 numbers per byte, the first in the low half, as e4m3 numbers 64 times smaller.

    Sign, exponent and mantissa keep their places, so even the one denormal, 0.5, becomes the right one.
    """
    byte = side.value
    high = builder.with_constant("arith.shrui", byte, 4)
    both = builder.add("tt.join", (byte, high), byte.type.with_shape((*byte.type.shape, 2)))
    codes = builder.merged(both, side.packed)
    size = builder.with_constant("arith.shli", builder.with_constant("arith.andi", codes, 7), 2)
    sign = builder.with_constant("arith.shli", builder.with_constant("arith.andi", codes, 8), 4)
    bits = builder.add("arith.ori", (size, sign), codes.type)
    return builder.cast("tt.bitcast", bits, Element.F8E4M3FN)


def _scale_as(builder: _Builder, scale: Value, compute: Element) -> Value:
    """A scale in the type that the product is computed in: fp16 by way of float32, which holds every exponent."""
    if scale.type.is_float:
        return builder.cast("tt.fp_to_fp", scale, compute)
    through, bits = (Element.F32, Element.I32) if compute is Element.F16 else (Element.BF16, Element.I16)
    wide = builder.cast("arith.extui", scale, bits)
    exponent = builder.with_constant("arith.shli", wide, 23 if through is Element.F32 else 7)
    return builder.cast("arith.truncf", builder.cast("tt.bitcast", exponent, through), compute)

"""How one matrix product is computed on one processor: what its operands are packed as, and what stays in registers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelsmith.triton_cpu.isa import Isa
from kernelsmith.triton_cpu.read.ir import Element


@dataclass(frozen=True)
class Scheme:
    """The arithmetic: `total` is what sums are kept in, `stored` what an operand's elements are packed as, `per` how
    many of those, neighbours along K, make a unit that one instruction multiplies, and `step` the instruction's name
    in `cpp/dot.h`.
    """

    total: Element
    stored: Element
    per: int
    step: str

    @property
    def unit(self) -> str:
        """The C++ type of a unit."""
        return "u32" if self.per > 1 else self.stored.value

    @property
    def unit_bytes(self) -> int:
        return self.per * self.stored.bytes


@dataclass(frozen=True)
class Blocking:
    """What stays in registers while K runs: `rows` by `vectors` vectors of `lanes` totals."""

    rows: int
    vectors: int
    lanes: int

    @property
    def panel(self) -> int:
        """Columns of one panel of b."""
        return self.vectors * self.lanes


def scheme(isa: Isa, a: Element, b: Element, result: Element, rows: int, depth: int, columns: int) -> Scheme:
    """The fastest arithmetic that is exact for these operands. 16-bit floats are summed in float32; packing knows
    powers of two only."""
    if result is Element.F64:
        return Scheme(result, result, 1, "f64")
    fills_registers = columns * 4 >= 16 and all(size & (size - 1) == 0 for size in (rows, depth, columns))
    if result.is_float:
        if isa.bf16_dot and fills_registers and a is b is Element.BF16 and depth % 2 == 0:
            return Scheme(Element.F32, Element.BF16, 2, "bf16")
        return Scheme(Element.F32, Element.F32, 1, "f32")
    if isa.vnni and fills_registers and a is b is Element.I8 and depth % 4 == 0:
        return Scheme(Element.I32, Element.I8, 4, "i8")
    return Scheme(Element.I32, Element.I32, 1, "i32")


def blocking(isa: Isa, scheme: Scheme, rows: int, columns: int) -> Blocking:
    """Half of the registers hold totals (8 rows by 2 vectors of AVX-512 measured best of eight shapes), which must be
    enough of them to hide the latency of one instruction; what they hold divides the matrix."""
    lanes = math.gcd(columns, 4 * isa.lanes // scheme.total.bytes)
    if lanes * scheme.total.bytes < 16:
        lanes = 1
    totals, high = (16, 8) if isa.avx512 else (8, 4)
    height = _divisor(rows, high)
    vectors = _divisor(columns // lanes, totals // height)
    return Blocking(_divisor(rows, totals // vectors), vectors, lanes)


def _divisor(size: int, most: int) -> int:
    """The largest that is no more than `most`."""
    return next(count for count in range(min(size, most), 0, -1) if size % count == 0)

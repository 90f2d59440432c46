"""Integer and pointer arithmetic that keeps linear forms linear.

The scalar parts are computed in the operation's own width, wrapping as TTIR does; only inside one row of a loop nest
is an index taken not to wrap.
"""

from __future__ import annotations

import math
from dataclasses import replace

from kernelsmith.triton_cpu.emit.loop import Loop, element_address
from kernelsmith.triton_cpu.emit.names import literal
from kernelsmith.triton_cpu.emit.reps import ZERO, Digit, Linear, Offsets, Prefix, Rep, Uniform
from kernelsmith.triton_cpu.read.ir import Element, Op, Type

_I32 = Type(Element.I32)
_FLIPPED = {
    "slt": "sgt",
    "sle": "sge",
    "sgt": "slt",
    "sge": "sle",
    "ult": "ugt",
    "ule": "uge",
    "ugt": "ult",
    "uge": "ule",
}


def number(code: str) -> int | None:
    """The value of an integer literal as it is written here; None for anything else."""
    digits = code.strip("()").removesuffix("l")
    return int(digits) if digits.removeprefix("-").isdecimal() else None


def same(a: Rep, operator: str, b: Rep) -> Rep | None:
    """The form that adding 0 or multiplying by 0 or 1 leaves, whatever the other operand is."""
    for one, other in ((a, b), (b, a)):
        known = number(other.code) if isinstance(other, Uniform) else None
        if known == 0 and (operator == "+" or (operator == "-" and other is b)):
            return one
        if operator == "*" and known in (0, 1):
            return one if known else ZERO
    return None


def wrapped(kind: Type, a: str, operator: str, b: str) -> str:
    """Scalar two's complement arithmetic."""
    known = same(Uniform(a), operator, Uniform(b))
    if isinstance(known, Uniform):
        return known.code
    first, second = number(a), number(b)
    if first is not None and second is not None:
        result = {"+": first + second, "-": first - second, "*": first * second}[operator]
        return literal(result & ((1 << kind.element.bits) - 1), kind.element)
    bits = max(kind.element.bits, 32)
    return f"(i{kind.element.bits})((u{bits}){a} {operator} (u{bits}){b})"


def stride_sum(kind: Type, a: int | str, operator: str, b: int | str) -> int | str:
    if isinstance(a, int) and isinstance(b, int):
        return {"+": a + b, "-": a - b, "*": a * b}[operator]
    return "(" + wrapped(kind, str(a), operator, str(b)) + ")"


def combine(loop: Loop, op_name: str, kind: Type, a: Rep, b: Rep) -> Rep | None:
    """add, sub and mul of integers when the result is uniform or linear; None when lanes are needed."""
    operator = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*"}[op_name]
    known = same(a, operator, b)
    if known is not None:
        return known
    if isinstance(a, Uniform) and isinstance(b, Uniform):
        return Uniform(loop.scalar(kind, wrapped(kind, a.code, operator, b.code)))
    scalars = (Uniform, Linear)
    if loop.x is None or not isinstance(a, scalars) or not isinstance(b, scalars):
        return None
    if operator == "*":
        linear, factor = (a, b) if isinstance(a, Linear) else (b, a)
        if not isinstance(linear, Linear) or not isinstance(factor, Uniform):
            return None
        number = int(factor.code) if factor.code.isdigit() else factor.code
        return _linear(
            loop, kind, wrapped(kind, linear.base, "*", factor.code), stride_sum(kind, linear.stride, "*", number)
        )
    first, second = (rep if isinstance(rep, Linear) else Linear(rep.code, 0) for rep in (a, b))
    stride = stride_sum(kind, first.stride, operator, second.stride)
    return _linear(loop, kind, wrapped(kind, first.base, operator, second.base), stride)


def integer_sum(loop: Loop, kind: Type, a: Rep, b: Rep) -> Rep:
    """a + b, in lanes if it has to be."""
    rep = combine(loop, "arith.addi", kind, a, b)
    if rep is not None:
        return rep
    return loop.vector(kind, f"{loop.as_vector(a, kind)} + {loop.as_vector(b, kind)}")


def _linear(loop: Loop, kind: Type, base: str, stride: int | str) -> Rep:
    name = loop.scalar(kind, base)
    if stride == 0:
        return Uniform(name)
    return Linear(name, stride if isinstance(stride, int) else loop.scalar(kind, stride))


def _stays_in_range(loop: Loop, kind: Type, rep: Linear, *, signed: bool) -> bool:
    """Whether `rep` may be taken not to wrap in its own type, so that it stays linear in a wider one.

    Consecutive integers are: a block's indices start at a multiple of its size. Any other stride is checked before the
    loop, and the loop for masked elements, which runs when the check fails, computes lane by lane.
    """
    bits = kind.element.bits
    if bits == 64 or (rep.stride == 1 and signed):
        return True
    if not loop.full:
        return False
    last = f"(i64){rep.base} + (i64){rep.stride} * {loop.extent - 1}"
    fits = f"{last} == (i{bits})({last})" + ("" if signed else f" && {rep.base} >= 0 && {last} >= 0")
    loop.require(loop.count(f"{fits} ? {loop.extent}l : 0l"))
    return True


def resize(loop: Loop, source: Type, target: Type, rep: Linear, *, signed: bool) -> Rep | None:
    """Sign or zero extension, or truncation, of a linear integer; None when lanes are needed."""
    if target.element.bits > source.element.bits and not _stays_in_range(loop, source, rep, signed=signed):
        return None
    cast = f"({target.element.value})" + ("" if signed else f"(u{source.element.bits})")
    stride = rep.stride if isinstance(rep.stride, int) else f"({target.element.value}){rep.stride}"
    return _linear(loop, target, cast + rep.base, stride)


def divide(loop: Loop, op_name: str, kind: Type, a: Rep, b: Rep) -> Rep | None:
    """Quotient or remainder of consecutive integers by one number: linear up to the next multiple of that number."""
    if not (loop.full and isinstance(a, Linear) and a.stride == 1 and isinstance(b, Uniform)):
        return None
    element = kind.element.value
    rest = loop.scalar(kind, f"ks_remainder<{element}>({a.base}, {b.code})")
    loop.require(loop.count(f"{a.base} < 0 || {b.code} <= 0 ? 0l : (i64){b.code} - {rest}"))
    if op_name.startswith("arith.rem"):
        return Linear(rest, 1)
    return Uniform(loop.scalar(kind, f"ks_divide<{element}>({a.base}, {b.code})"))


def compare(loop: Loop, op: Op, a: Rep, b: Rep) -> Rep | None:
    """A comparison of consecutive integers with one number holds for a prefix, or from some point on.

    Unless they wrap within the row, which only checked builds notice.
    """
    predicate = op.words[0]
    if isinstance(b, Linear) and isinstance(a, Uniform):
        a, b, predicate = b, a, _FLIPPED.get(predicate, predicate)
    if loop.x is None or not (isinstance(a, Linear) and isinstance(b, Uniform) and a.stride == 1):
        return None
    if loop.scope.checks is not None:
        loop.scope.checks.row(loop, op, a)
    if predicate in ("sge", "sgt") and loop.full:  # the lower bounds of block pointers: if of the first, then of all
        sign = ">=" if predicate == "sge" else ">"
        loop.require(loop.count(f"{a.base} {sign} {b.code} ? {loop.extent}l : 0l"))
        return Uniform("true")
    if predicate not in ("slt", "sle"):
        return None
    start = "" if a.base == "0" else f" - (i64){a.base}"
    count = loop.count(f"(i64){b.code}{start}" + (" + 1" if predicate == "sle" else ""))
    return prefix(loop, count)


def prefix(loop: Loop, count: str) -> Rep:
    if loop.past is not None:
        loop.past[count] = None
        return Uniform("false")
    if loop.full:
        loop.require(count)
        return Uniform("true")
    return Prefix(count)


def both(loop: Loop, a: Rep, b: Rep) -> Rep | None:
    """Conjunction of predicates that keeps prefixes."""
    if Uniform("false") in (a, b):
        return Uniform("false")
    if Uniform("true") in (a, b):
        return b if a == Uniform("true") else a
    if isinstance(a, Prefix) and isinstance(b, Prefix):
        return Prefix(loop.count(f"{a.count} < {b.count} ? {a.count} : {b.count}"))
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Prefix) and isinstance(other, Uniform):
            return Prefix(loop.count(f"{other.code} ? {one.count} : 0l"))
    return None


def advance(loop: Loop, pointer: Rep, offset: Rep, kind: Type, offset_kind: Type) -> Rep:
    """tt.addptr: the offset counts elements of `kind` and is sign-extended."""
    size = kind.element.bytes
    if isinstance(offset, Linear) and not _stays_in_range(loop, offset_kind, offset, signed=True):
        offset = loop.vector(offset_kind, loop.as_vector(offset, offset_kind), "offset")
    if isinstance(pointer, Uniform):
        if isinstance(offset, Uniform):
            return Uniform(_pointer(loop, element_address(pointer.code, size, offset.code)))
        if isinstance(offset, Linear):
            return Linear(_pointer(loop, element_address(pointer.code, size, offset.base)), offset.stride)
        return Offsets(pointer.code, *_offset_lanes(loop, offset, offset_kind))
    if isinstance(pointer, Linear):
        if isinstance(offset, Uniform):
            return Linear(_pointer(loop, element_address(pointer.base, size, offset.code)), pointer.stride)
        if isinstance(offset, Linear):
            base = _pointer(loop, element_address(pointer.base, size, offset.base))
            if isinstance(pointer.stride, int) and isinstance(offset.stride, int):
                return Linear(base, pointer.stride + offset.stride)
            stride = loop.scalar(Type(Element.I64), f"(i64){pointer.stride} + (i64){offset.stride}")
            return Linear(base, stride)
        lanes, _ = _offset_lanes(loop, offset, offset_kind)
        ramp = f"ks_ramp((i64){pointer.stride} * {loop.x}, (i64){pointer.stride})"
        wide = loop.vector(Type(Element.I64), f"{ramp} + ks_convert<vi64>({lanes})", "offset")
        return Offsets(pointer.base, wide.code, wide=True)
    if not isinstance(pointer, Offsets):
        raise TypeError("a pointer has one of the three pointer forms")
    if isinstance(offset, Uniform):
        return replace(pointer, base=_pointer(loop, element_address(pointer.base, size, offset.code)))
    lanes, _ = _offset_lanes(loop, offset, offset_kind)
    step = f"ks_convert<vi64>({lanes})" + (f" * {size}" if pointer.in_bytes else "")
    total = f"ks_convert<vi64>({pointer.lanes}) + {step}"
    return replace(pointer, lanes=loop.vector(Type(Element.I64), total, "offset").code, wide=True)


def _pointer(loop: Loop, code: str) -> str:
    return loop.scalar(Type(Element.I8, (), pointer=True), code, "p")


def _offset_lanes(loop: Loop, offset: Rep, kind: Type) -> tuple[str, bool]:
    lanes = loop.as_vector(offset, kind)
    if kind.element is Element.I64:
        return lanes, True
    return (lanes if kind.element is Element.I32 else f"ks_convert<vi32>({lanes})"), False


def flatten(loop: Loop, index: tuple[Rep, ...], shape: tuple[int, ...]) -> Rep:
    """Row-major position of an element."""
    total: Rep = ZERO
    step = 1
    pairs = [(at, size) for at, size in zip(reversed(index), reversed(shape), strict=True) if size > 1]
    digits = _whole_run(loop, pairs)
    if digits:
        total, step = Linear("0", 1), loop.extent
    for at, size in pairs[digits:]:
        scaled = at if step == 1 else _or_vector(loop, "arith.muli", at, Uniform(str(step)))
        total = scaled if total == ZERO else _or_vector(loop, "arith.addi", scaled, total)
        step *= size
    return total


def _whole_run(loop: Loop, pairs: list[tuple[Rep, int]]) -> int:
    """How many of the last dimensions (given last first) hold the digits of x, all of them and no more; else 0."""
    step = 1
    for number, (at, size) in enumerate(pairs):
        if at != Digit(step, size):
            return 0
        step *= size
        if step == loop.extent:
            return number + 1
    return 0


def unflatten(loop: Loop, flat: Rep, shape: tuple[int, ...]) -> tuple[Rep, ...]:
    """Index of the element at a row-major position; a linear one runs from a multiple of the loop's extent."""
    index: list[Rep] = []
    step = 1
    count = math.prod(shape)
    for size in reversed(shape):
        digit = _digit_of(loop, flat, (step, size, count)) if size > 1 else ZERO
        if digit is None:
            return unflatten(loop, loop.position(_I32, loop.as_vector(flat, _I32), "flat"), shape)
        index.append(digit)
        step *= size
    return tuple(reversed(index))


def _digit_of(loop: Loop, flat: Rep, place: tuple[int, int, int]) -> Rep | None:
    """`flat / step % size` below `count`; None where a linear position has to be taken lane by lane."""
    step, size, count = place
    run = loop.extent
    if isinstance(flat, Uniform):
        return Uniform(loop.scalar(_I32, _digit(flat.code, step, size, count)))
    if not isinstance(flat, Linear):
        digit = _digit(loop.as_vector(flat, _I32), step, size, count)
        return flat if step * size == count == size else loop.position(_I32, digit)
    if flat.stride != 1:
        return None
    if step % run == 0:
        return Uniform(loop.scalar(_I32, _digit(flat.base, step, size, count)))
    if step == 1 and size % run == 0:
        return Linear(loop.scalar(_I32, _digit(flat.base, step, size, count)), 1)
    return Digit(step, size) if run % (step * size) == 0 else None


def _digit(flat: str, step: int, size: int, count: int) -> str:
    """`flat / step % size` for 0 <= flat < count."""
    code = flat
    if step > 1:
        code = f"({flat} >> {step.bit_length() - 1})" if step & (step - 1) == 0 else f"({flat} / {step})"
    if step * size == count:
        return code
    return f"({code} & {size - 1})" if size & (size - 1) == 0 else f"({code} % {size})"


def _or_vector(loop: Loop, name: str, a: Rep, b: Rep) -> Rep:
    rep = combine(loop, name, _I32, a, b)
    if rep is not None:
        return rep
    operator = "*" if name == "arith.muli" else "+"
    return loop.position(_I32, f"{loop.as_vector(a, _I32)} {operator} {loop.as_vector(b, _I32)}")

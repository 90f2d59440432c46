"""tl.device_print: lines on the process's standard output, in the GPU's own format.

    pid (0, 3, 0) idx ( 7, 12) x: 42

The format is that of Triton's documentation of device_print and of its own tests. A scalar makes one line per program
instance, not one per thread of a warp. Each line is one call of printf, which locks the stream, so lines of several
threads never mix; the stream is flushed before the operation ends.
"""

from __future__ import annotations

import math
import re

from kernelsmith.triton_cpu.emit.evaluate import evaluate, materialise
from kernelsmith.triton_cpu.emit.loop import Loop
from kernelsmith.triton_cpu.emit.nest import emit_nest
from kernelsmith.triton_cpu.emit.reps import uniform_code
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.read.ir import Element, Op, Type, Value

_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_SAFE = frozenset(range(32, 127)) - frozenset(b'"\\?')
_PROGRAM = "program_x, program_y, program_z"


def unescape(text: str) -> bytes:
    """The bytes of an MLIR string, which writes unusual ones as a backslash and two hexadecimal digits."""

    def byte(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        return bytes([int(code, 16)]) if len(code) == 2 else {b"n": b"\n", b"t": b"\t"}.get(code, code)

    return _ESCAPE.sub(byte, text.encode())


def c_string(text: bytes) -> str:
    """A C++ string literal of these bytes."""
    return '"' + "".join(chr(byte) if byte in _SAFE else f"\\{byte:03o}" for byte in text) + '"'


def emit_print(scope: Scope, op: Op) -> None:
    """tt.print: a line per element of each operand, or one line if there is no operand."""
    prefix = unescape(op.text("text")).replace(b"%", b"%%").decode("utf-8", "surrogateescape")
    signs = op.text("isSigned").rpartition(":")[2].split(",")
    for load in scope.uses.loads_below(op.operands, set(scope.arrays)):
        materialise(scope, load.result)
    if not op.operands:
        scope.write(_call(f"pid (%i, %i, %i){prefix}", []))
    for number, operand in enumerate(op.operands):
        which = f"(operand {number}) " if len(op.operands) > 1 else ""
        signed = number < len(signs) and signs[number].strip() not in ("0", "false")
        _print_operand(scope, operand, prefix + which, signed=signed, hexadecimal=bool(op.integer("hex")))
    scope.write("fflush(stdout);")


def _print_operand(scope: Scope, operand: Value, prefix: str, *, signed: bool, hexadecimal: bool) -> None:
    kind = operand.type
    widths = (math.ceil(math.log10(size)) for size in kind.shape)
    places = ", ".join(f"%{width or ''}i" for width in widths)
    form = _form(kind.with_shape(()), signed=signed, hexadecimal=hexadecimal)

    def body(loop: Loop) -> None:
        value = uniform_code(evaluate(loop, operand, loop.index))
        at = [f"(i32){uniform_code(rep)}" for rep in loop.index]
        loop.body.append(_call(f"pid (%i, %i, %i) idx ({places}){prefix}{form[0]}", [*at, form[1].format(value)]))

    emit_nest(scope, kind.shape, body, vectors=False)


def _call(form: str, arguments: list[str]) -> str:
    text = c_string(form.encode("utf-8", "surrogateescape") + b"\n")
    return f"printf({', '.join([text, _PROGRAM, *arguments])});"


def _form(kind: Type, *, signed: bool, hexadecimal: bool) -> tuple[str, str]:
    """printf's directive for an element, and how to pass it."""
    element = kind.element
    if kind.pointer:
        return "%p", "(void *){0}"
    if element is Element.I1:
        return ("0x%01x" if hexadecimal else "%i"), "(i32){0}"
    if hexadecimal:
        bits = f"ks_narrow_{element.value}({{0}})" if element.is_half else "ks_bits_of({0})"
        code = bits if element.is_float else f"(u{element.bits}){{0}}"
        return f"0x%0{element.bits // 4}{'l' if element.bits == 64 else ''}x", code
    if element.is_float:
        return "%f", "(f64){0}"
    letter = "i" if signed else "u"
    return (f"%l{letter}" if element.bits == 64 else f"%{letter}"), f"({letter}{element.bits}){{0}}"

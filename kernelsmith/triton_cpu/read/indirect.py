"""Tables of pointers: loads and stores of pointers become those of 64-bit addresses, which later stages know.

Front ends before Triton 3.9 make pointers to pointers. Called by the parser for every operation.
"""

from __future__ import annotations

from dataclasses import replace

from kernelsmith.triton_cpu.read.ir import Element, Op, Type, Value


def through_addresses(op: Op) -> tuple[Op, ...]:
    """The operation itself, or what does the same to addresses."""
    if op.name not in ("tt.load", "tt.store") or not op.operands or op.operands[0].type.target is None:
        return (op,)
    casts: list[Op] = []
    operands = [op.operands[0]]
    for operand in op.operands[1:]:
        if operand.type.pointer:
            address = Value(operand.name, Type(Element.I64, operand.type.shape))
            casts.append(Op("tt.ptr_to_int", (operand,), (address,), location=op.location))
            operand = address
        operands.append(operand)
    if op.name == "tt.store":
        return (*casts, replace(op, operands=tuple(operands)))
    address = Value(op.result.name, Type(Element.I64, op.result.type.shape))
    load = replace(op, operands=tuple(operands), results=(address,))
    return (*casts, load, Op("tt.int_to_ptr", (address,), op.results, location=op.location))

"""Result types of operations that print only their operands' types, and the checks that make later stages safe.

The rules follow the operations' definitions in MLIR's arith and math dialects and Triton's TritonOps. An operation
without a rule keeps the types it printed; whether it can be compiled is the emitter's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct, reason_for
from kernelsmith.triton_cpu.ir import Element, Type, Value

Types = tuple[Type, ...]
_NO_RESULT = {
    "tt.store",
    "tt.atomic_store",
    "tt.return",
    "tt.print",
    "tt.assert",
    "tt.reduce.return",
    "tt.scan.return",
    "tt.map_elementwise.return",
    "scf.yield",
    "scf.condition",
    "gpu.barrier",
    "ttg.barrier",
    "llvm.intr.assume",
    "nvvm.barrier0",
    "ttg.async_wait",
}
_CASTS = {"arith.bitcast", "tt.bitcast", "tt.fp_to_fp", "tt.int_to_ptr", "tt.ptr_to_int", "arith.index_cast"} | {
    f"arith.{name}" for name in ("extsi", "extui", "trunci", "extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui")
}
_ARITH_COUNT = {"arith.negf": 1, "arith.select": 3, "tt.clampf": 3, "math.fma": 3, "tt.mulhiui": 2}


def result_types(name: str, operands: Sequence[Value], left: Types, right: Types | None, words: Sequence[str]) -> Types:
    """Types of an operation's results, given the types it printed before (`left`) and after (`right`) an arrow or `to`.

    Raises:
        TtirError: operands and types do not fit together.
    """
    actual = tuple(operand.type for operand in operands)
    if name in _NO_RESULT:
        if name in ("tt.store", "tt.atomic_store"):
            _check_memory(name, actual, value_at=1)
        return ()
    if right is not None:
        _check_conversion(name, actual, left, right)
        return right * 2 if name == "tt.split" and len(right) == 1 else right
    if name == "tt.load":
        _check_memory(name, actual, value_at=None)
        return (actual[0].pointee,)
    if name in ("arith.cmpi", "arith.cmpf"):
        _require(name, len(actual) == 2 and actual[0] == actual[1] and bool(words), actual)
        return (actual[0].with_element(Element.I1),)
    if name == "tt.addptr":
        _require(name, len(actual) == 2 and actual[0].pointer and actual[1].is_integer, actual)
        _require(name, actual[0].shape == actual[1].shape, actual)
        return (actual[0],)
    if name == "tt.unsplat":  # prints its operand's type only
        _require(name, len(actual) == 1 and actual[0].count == 1 and bool(actual[0].shape), actual)
        return (actual[0].with_shape(()),)
    if name in ("tt.get_program_id", "tt.get_num_programs"):
        return (Type(Element.I32),)
    if not left:
        raise UnsupportedConstruct(name, reason_for(name))
    _check_elementwise(name, actual)
    return (left[-1],)


def _require(name: str, condition: bool, types: Types) -> None:
    if not condition:
        raise TtirError(f"{name} cannot take ({', '.join(map(str, types))})")


def _check_memory(name: str, types: Types, value_at: int | None) -> None:
    """Pointer, value, mask and other agree in shape and element."""
    _require(name, bool(types) and types[0].pointer, types)
    rest = types[1:]
    if value_at is not None:
        _require(name, len(types) in (2, 3) and rest[0] == types[0].pointee, types)
        rest = rest[1:]
    _require(name, len(rest) <= 2, types)
    if rest:
        _require(name, rest[0] == types[0].pointee.with_element(Element.I1), types)
    if rest[1:]:
        _require(name, rest[1] == types[0].pointee, types)


def _check_elementwise(name: str, types: Types) -> None:
    if not (name.startswith(("arith.", "math.")) or name in _ARITH_COUNT):
        return
    if name == "arith.select":
        _require(name, len(types) == 3 and types[1] == types[2] and types[0].is_predicate, types)
        _require(name, types[0].shape in ((), types[1].shape), types)
        return
    _require(name, bool(types) and all(kind == types[0] for kind in types), types)
    count = _ARITH_COUNT.get(name, 2 if name.startswith("arith.") else len(types))
    _require(name, len(types) == count and not types[0].pointer, types)
    wants_float = name.startswith("math.") or name.endswith("f")
    if name not in ("math.absi", "math.ctpop", "math.ctlz", "math.cttz"):
        _require(name, types[0].is_float == wants_float, types)


def _check_conversion(name: str, actual: Types, left: Types, right: Types) -> None:
    if left and len(left) == len(actual):
        _require(name, left == actual, actual)
    if name in _CASTS:
        _require(name, len(actual) == 1 and len(right) == 1 and actual[0].shape == right[0].shape, actual)
    if name in ("tt.reshape", "tt.trans"):
        _require(name, len(actual) == 1 and actual[0].count == right[0].count, actual)
    if name == "tt.splat":
        _require(name, len(actual) == 1 and actual[0].shape == () and right[0].with_shape(()) == actual[0], actual)
    if name == "tt.broadcast":
        pairs = zip(actual[0].shape, right[0].shape, strict=False)
        fits = len(actual[0].shape) == len(right[0].shape) and all(a in (1, b) for a, b in pairs)
        _require(name, fits and actual[0].with_shape(()) == right[0].with_shape(()), actual)

"""Result types of operations that print only their operands' types, and the checks that make later stages safe.

The rules follow the operations' definitions in MLIR's arith and math dialects and Triton's TritonOps. An operation
without a rule keeps the types it printed; whether it can be compiled is the emitter's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct, reason_for
from kernelsmith.triton_cpu.read.ir import Attribute, Element, Type, Value

Types = tuple[Type, ...]
_NO_RESULT = {
    "tt.store",
    "tt.atomic_store",
    "tt.return",
    "tt.print",
    "tt.assert",
    "tt.annotation",
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

_ANY = 1 << 16
_COUNTS = {
    "tt.store": (2, 3),
    "tt.load": (1, 3),
    "tt.atomic_rmw": (2, 3),
    "tt.atomic_cas": (3, 3),
    "tt.atomic_load": (1, 2),
    "tt.atomic_store": (2, 3),
    "tt.atomic_poll": (2, 3),
    "tt.dot": (3, 3),
    "tt.histogram": (1, 2),
    "tt.assert": (1, 1),
    "llvm.intr.assume": (1, _ANY),
    "tt.make_range": (0, 0),
    "tt.get_program_id": (0, 0),
    "tt.get_num_programs": (0, 0),
    "tt.map_elementwise": (1, _ANY),
    "tt.reduce": (1, _ANY),
    "tt.scan": (1, _ANY),
    "scf.condition": (1, _ANY),
}
_COUNTS |= dict.fromkeys(("tt.addptr", "tt.gather", "tt.join", "tt.cat", "arith.cmpi", "arith.cmpf"), (2, 2))
_MOVES = ("tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.split", "tt.flip")
_COUNTS |= dict.fromkeys((*_MOVES, *_CASTS), (1, 1))
_AXES = {"tt.reduce": 0, "tt.scan": 0, "tt.gather": 0, "tt.expand_dims": 1}
"""Operations with an `axis` of their first operand, and how many more axes than that it may name."""


def check_operation(name: str, operands: Sequence[Value], results: Types, attributes: Mapping[str, Attribute]) -> None:
    """What every later stage takes for granted: how many operands there are, whose axes are named, what shapes follow.

    Raises:
        TtirError: the operation has other operands or results.
    """
    actual = tuple(operand.type for operand in operands)
    least, most = _COUNTS.get(name, (0, _ANY))
    _require(name, least <= len(actual) <= most, actual)
    if name.startswith("tt.atomic_"):
        second = Element.I1 if name == "tt.atomic_load" else actual[0].pointee.element
        fits = actual[1:2] in ((), (actual[0].pointee.with_element(second),))
        _require(name, actual[0].pointer and fits, actual)
    if name in ("tt.reduce", "tt.scan"):
        _require(name, all(kind.shape == actual[0].shape for kind in actual), actual)
    if name == "tt.gather":
        _require(name, actual[1].is_integer and len(actual[0].shape) == len(actual[1].shape), actual)
    if name == "tt.dot":
        a, b, c = (kind.shape for kind in actual)
        fits = len(a) in (2, 3) and len(a) == len(b) and a[-1] == b[-2] and a[:-2] == b[:-2]
        _require(name, fits and c == (*a[:-1], b[-1]), actual)
    axis = attributes.get("axis", 0)
    if name in _AXES and not (isinstance(axis, int) and 0 <= axis < len(actual[0].shape) + _AXES[name]):
        raise TtirError(f"{name} of {actual[0]} has no axis {axis}")
    shape = _shape(name, actual, axis if isinstance(axis, int) else 0)
    if shape is not None and any(kind.shape != shape for kind in results):
        raise TtirError(f"{name} of ({', '.join(map(str, actual))}) cannot give ({', '.join(map(str, results))})")


def _shape(name: str, types: Types, axis: int) -> tuple[int, ...] | None:
    """The shape of an operation's results, where its operands' shapes and its axis settle that."""
    if name == "tt.expand_dims":
        return (*types[0].shape[:axis], 1, *types[0].shape[axis:])
    if name == "tt.reduce":
        return types[0].shape[:axis] + types[0].shape[axis + 1 :]
    if name == "tt.gather":
        return types[1].shape
    if name == "tt.join":
        return (*types[0].shape, 2)
    if name == "tt.split":
        return types[0].shape[:-1]
    if name == "tt.scan":
        return types[0].shape
    return types[2].shape if name == "tt.dot" else None


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
    _require(name, len(right) == 1 or name not in _MOVES or name == "tt.split", actual)
    if left and len(left) == len(actual):
        _require(name, left == actual, actual)
    if name in _CASTS:
        _require(name, len(actual) == 1 and len(right) == 1 and actual[0].shape == right[0].shape, actual)
    if name in ("tt.reshape", "tt.trans"):
        _require(name, len(actual) == 1 and actual[0].count == right[0].count, actual)
    if name == "tt.splat":
        _require(name, len(actual) == 1 and actual[0].shape == () and right[0].with_shape(()) == actual[0], actual)
    if name == "tt.broadcast":
        _require(name, len(actual) == 1, actual)
        pairs = zip(actual[0].shape, right[0].shape, strict=False)
        fits = len(actual[0].shape) == len(right[0].shape) and all(a in (1, b) for a, b in pairs)
        _require(name, fits and actual[0].with_shape(()) == right[0].with_shape(()), actual)

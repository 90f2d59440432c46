"""Constructs of a kernel that some devices lack or are slow at, found in its TTIR, which knows dtypes, and in its
source where `tl` makes many operations of one.

What a device thinks of a construct stands in its target file (`Target.lint`); this only finds them. Invariant: values
that only make an address or a mask are not taken for arithmetic, since front ends turn those into strides and extents.
`found_in` is called in the compiler's process, since TTIR is hostile text; `found_in_source` parses and runs nothing.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from kernelsmith.compiled import Found
from kernelsmith.targets import Construct
from kernelsmith.triton_cpu.read.ir import Element, Function, Op, Value, walk
from kernelsmith.triton_cpu.read.parse import parse

LONGEST_NAME = 49
"""Characters of a kernel's name that triton-ascend 3.2.0 keeps."""
_INTEGER = frozenset(
    f"arith.{name}" for name in ("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "minsi", "maxsi", "shli")
)
_UNSIGNED = frozenset(f"arith.{name}" for name in ("divui", "remui", "shrui", "minui", "maxui", "uitofp", "fptoui"))
_REST = frozenset({"arith.remsi", "arith.remui"})
_ACCESS = frozenset({"tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"})
_LOOPS = frozenset({"scf.for", "scf.while"})
_MASK_AT = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}
_IN_SOURCE = {
    **dict.fromkeys(("sort", "topk", "argsort"), Construct.SORT),
    **dict.fromkeys(("rand", "randn", "randint", "rand4x", "randint4x", "randn4x", "philox"), Construct.RANDOM_NUMBERS),
    "inline_asm_elementwise": Construct.INLINE_ASSEMBLY,
    "dot_scaled": Construct.DOT_SCALED,
}


def found_in(ttir: str, name: str) -> tuple[Found, ...]:
    """Each construct once, where it occurs first. Raises TtirError and UnsupportedConstruct."""
    module = parse(ttir)
    first: dict[Construct, Found] = {}
    if len(name) > LONGEST_NAME:
        first[Construct.LONG_KERNEL_NAME] = Found(what=Construct.LONG_KERNEL_NAME.value)
    for function in module.functions.values():
        for construct, op in _Kernel(function).constructs():
            first.setdefault(construct, Found(what=construct.value, line=line_of(op)))
    return tuple(first.values())


def found_in_source(source: str) -> tuple[Found, ...]:
    """Calls of `tl` by name in functions that are kernels; () for a text that is no Python."""
    first: dict[Construct, Found] = {}
    for function in _nodes(source):
        if not isinstance(function, ast.FunctionDef) or not any(map(_is_jit, function.decorator_list)):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and _is_library(call.func.value):
                construct = Construct.MASKED_LOAD_PADDING if _fills(call) else _IN_SOURCE.get(call.func.attr)
                if construct is not None:
                    first.setdefault(construct, Found(what=construct.value, line=call.lineno))
    return tuple(first.values())


def _fills(call: ast.Call) -> bool:
    """A load whose masked lanes become zeros though nobody asked: front ends that do so print it like `other=0`."""
    named = {word.arg: word.value for word in call.keywords}
    masked = "mask" in named or len(call.args) > 1
    minded = "other" in named or len(call.args) > 2 or None in named
    cared = named.get("care_padding")
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "load"
        and masked
        and not minded
        and not (isinstance(cared, ast.Constant) and cared.value is False)
    )


def keywords_in(source: str) -> frozenset[str]:
    """Names of keyword arguments of any call: which launch options somebody wrote down."""
    return frozenset(word.arg for word in _nodes(source) if isinstance(word, ast.keyword) and word.arg is not None)


def _nodes(source: str) -> Iterator[ast.AST]:
    """Of a text that is Python; none of another."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from ast.walk(tree)


def _is_jit(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "jit"


def _is_library(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("tl", "triton", "language")


def line_of(op: Op) -> int | None:
    """Of the candidate's source."""
    number = (op.location or "").rpartition(":")[2]
    return int(number) if number.isdigit() else None


class _Kernel:
    """One function, with who uses and who makes each value."""

    def __init__(self, function: Function) -> None:
        self._ops = list(walk(function.body))
        self._made = {result: op for op in self._ops for result in op.results}
        self._users: dict[Value, list[tuple[Op, int]]] = defaultdict(list)
        for op in self._ops:
            for index, operand in enumerate(op.reads):
                self._users[operand].append((op, index))
        self._in_loops = {inner for op in self._ops if op.name in _LOOPS for r in op.regions for inner in walk(r)}
        self._address: dict[Value, bool] = {}
        self._mask: dict[Value, bool] = {}

    def constructs(self) -> Iterator[tuple[Construct, Op]]:
        for op in self._ops:
            for construct in self._of(op):
                yield construct, op

    def _of(self, op: Op) -> Iterator[Construct]:
        kinds = [value.type for value in (*op.results, *op.operands) if value.type.shape and not value.type.pointer]
        if any(kind.element is Element.F64 for kind in kinds):
            yield Construct.FLOAT64
        if any(kind.element.is_f8 for kind in kinds):
            yield Construct.FLOAT8
        if op.name in _UNSIGNED and kinds and not self._only_address(op.results[0]):
            yield Construct.UNSIGNED_INTEGERS
        if op.name in _INTEGER and kinds and kinds[0].element is Element.I64 and not self._only_address(op.results[0]):
            yield Construct.INT64_MATH
        if op.name == "arith.cmpi" and op.operands[0].type.shape and not self._only_mask(op.results[0]):
            wide = {Element.I64: Construct.INT64_COMPARE, Element.I32: Construct.INT32_COMPARE}
            if (construct := wide.get(op.operands[0].type.element)) is not None:
                yield construct
        yield from self._of_access(op)
        yield from self._of_shape(op)

    def _of_access(self, op: Op) -> Iterator[Construct]:
        if op.name in _ACCESS and op.operands[0].type.shape and self._is_discrete(op.operands[0], set()):
            yield Construct.DISCRETE_ACCESS
        if op.name.startswith("tt.atomic_"):
            if op.operands[-1].type.element is Element.I64 or op.operands[0].type.element is Element.I64:
                yield Construct.ATOMIC_INT64
            if op in self._in_loops:
                yield Construct.ATOMIC_IN_LOOP

    def _of_shape(self, op: Op) -> Iterator[Construct]:
        if op.name == "tt.trans":
            moved = [index for index, axis in enumerate(op.order) if index != axis]
            if moved and not (len(moved) == 2 and moved[1] - moved[0] == 1):
                yield Construct.PERMUTE_APART
        if op.name == "tt.gather" and op.integer("axis") != len(op.operands[0].type.shape) - 1:
            yield Construct.GATHER_NOT_LAST_AXIS

    def _only_address(self, value: Value) -> bool:
        """Whether every use ends in an address or a mask."""
        if value not in self._address:
            self._address[value] = True  # of a loop's value that is handed round: decided by its other uses
            self._address[value] = bool(self._users[value]) and all(
                self._is_address(*use) for use in self._users[value]
            )
        return self._address[value]

    def _is_address(self, op: Op, index: int) -> bool:
        if op.name == "tt.addptr":
            return index == 1
        if op.name == "arith.cmpi":
            return self._only_mask(op.results[0])
        carries = op.name in _INTEGER or op.name in ("tt.broadcast", "tt.expand_dims", "arith.extsi", "arith.trunci")
        return carries and all(map(self._only_address, op.results))

    def _only_mask(self, value: Value) -> bool:
        if value not in self._mask:
            self._mask[value] = True
            self._mask[value] = bool(self._users[value]) and all(self._is_mask(*use) for use in self._users[value])
        return self._mask[value]

    def _is_mask(self, op: Op, index: int) -> bool:
        if op.name in _MASK_AT:
            return index == _MASK_AT[op.name]
        carries = op.name in ("arith.andi", "arith.ori", "arith.xori", "tt.broadcast", "tt.expand_dims", "tt.splat")
        return carries and all(map(self._only_mask, op.results))

    def _is_discrete(self, value: Value, seen: set[Value]) -> bool:
        """Whether a block of addresses is made of loaded numbers or of the rest of a division of lanes."""
        op = self._made.get(value)
        if op is None or value in seen or not value.type.shape:
            return False
        seen.add(value)
        if op.name == "tt.load" or (op.name in _REST and op.operands[0].type.shape):
            return True
        return op.name not in ("tt.splat", "scf.for", "scf.if", "scf.while") and any(
            self._is_discrete(operand, seen) for operand in op.operands
        )

"""Which tensor values become arrays and which stay expressions.

An operation is a root when it does something: it stores, reduces, multiplies matrices, branches. Everything else is
lazy: its expression is emitted inside the loop of whichever root needs it. A lazy value gets an array of its own when
computing it again would cost more than keeping it: a load or a long computation that several roots use, or that a
larger tensor repeats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelsmith.triton_cpu.emit.simplify import FLIP
from kernelsmith.triton_cpu.read.ir import Block, Function, Op, Region, Value, walk

# Costs count vector instructions, roughly; an array costs a store and a load per use, and a loop.
_COST = {
    "tt.load": 3,
    "arith.divf": 6,
    "tt.precise_divf": 6,
    "math.sqrt": 8,
    "tt.precise_sqrt": 8,
    "tt.extern_elementwise": 20,
    "arith.remf": 20,
}
_KEEP_COST = 12
_FREE = {
    "tt.splat",
    "tt.broadcast",
    "tt.expand_dims",
    "tt.reshape",
    "tt.trans",
    "tt.make_range",
    "arith.constant",
    "tt.addptr",
    "tt.int_to_ptr",
    "tt.ptr_to_int",
    "tt.bitcast",
    "arith.bitcast",
    "tt.split",
    "tt.join",
    "ub.poison",
}
# Operations of Triton's own dialect that the expression writer knows, beside all of `arith` and `math`.
ELEMENTWISE = {
    "tt.fp_to_fp",
    "tt.clampf",
    "tt.mulhiui",
    "tt.extern_elementwise",
}
_LAZY = _FREE | ELEMENTWISE | {"tt.load", "tt.unsplat"}
_KEEPS_INDEX = ELEMENTWISE | {"tt.load", "tt.addptr", "tt.splat", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int"}
# Roots that read some operands in an order of their own, so these must be arrays: operand positions, None for all.
ARRAY_OPERANDS: dict[str, tuple[int, ...] | None] = {
    "tt.dot": (0, 1),
    "tt.scan": None,
    "tt.gather": (0,),
    "tt.cat": None,
    "tt.histogram": (0,),
    "tt.map_elementwise": None,
}
_LAZY_READERS = ("tt.gather", FLIP)


def is_pair(op: Op) -> bool:
    """True for a reduction over two elements, by which sorting networks pick one of a pair: better without an array."""
    if op.name != "tt.reduce" or len(op.operands) != 1 or not op.result.type.shape:
        return False
    return op.operands[0].type.shape[op.integer("axis")] == 2


def is_lazy(op: Op) -> bool:
    """True for tensor operations that are emitted where they are used."""
    if not op.results or not op.result.type.shape:
        return False
    return is_pair(op) or op.name in _LAZY or op.name.startswith(("arith.", "math.")) or op.name in _LAZY_READERS


def _keeps_index(op: Op) -> bool:
    """Whether every element of the result depends on the operands' elements at its own index only."""
    return op.name.startswith(("arith.", "math.")) or op.name in _KEEPS_INDEX


def array_operands(op: Op, lanes: int) -> tuple[int, ...]:
    """Positions of the operands that must be arrays. Neighbours within one vector change places in registers."""
    if op.name == FLIP:
        shape = op.result.type.shape
        within = 2 * math.prod(shape[op.integer("axis") + 1 :]) <= lanes and op.result.type.count % lanes == 0
        return () if within else (0,)
    positions = ARRAY_OPERANDS.get(op.name, ())
    return tuple(range(len(op.operands))) if positions is None else positions


def own_cost(op: Op) -> int:
    if op.name in _FREE:
        return 0
    if op.name in _COST:
        return _COST[op.name]
    if op.name.startswith("math.") and op.name not in ("math.absf", "math.fma"):
        return 20
    if op.name in ("arith.divsi", "arith.remsi", "arith.divui", "arith.remui"):
        return 4
    return 1


@dataclass
class Uses:
    """Facts about one function, filled by `analyse`.

    Attributes:
        lanes: elements of a vector.
        definitions: the operation that made a value; block arguments have none.
        position: place of each operation in its block.
        last_root: position, in the block that defines a value, of the last root that needs it; absent if none does.
        arrays: lazy values that must become arrays.
        users: operations that name the value as an operand.
        cost: what evaluating the value once costs, in rough vector instructions.
        data: values that depend on memory or on another root.
    """

    lanes: int
    definitions: dict[Value, Op] = field(default_factory=dict)
    position: dict[Op, int] = field(default_factory=dict)
    last_root: dict[Value, int] = field(default_factory=dict)
    arrays: set[Value] = field(default_factory=set)
    users: dict[Value, list[Op]] = field(default_factory=dict)
    cost: dict[Value, int] = field(default_factory=dict)
    data: set[Value] = field(default_factory=set)

    def loads_below(self, values: Iterable[Value], known: set[Value]) -> list[Op]:
        """Lazy loads that the expressions of `values` would execute, stopping at values that are already kept."""
        return [op for op in self._lazy_below(values, known) if op.name == "tt.load"]

    def moved_loads_below(self, values: Iterable[Value], known: set[Value]) -> list[Op]:
        """Of these, the ones whose elements end up at other indices than they were loaded at."""
        movers = [op for op in self._lazy_below(values, known) if not _keeps_index(op)]
        return self.loads_below([operand for op in movers for operand in op.operands], known)

    def kept_below(self, values: Iterable[Value], known: set[Value]) -> list[Value]:
        """Values below `values` that are to have an array and have none yet."""
        found = (value for op in self._lazy_below(values, known) for value in op.results)
        return [value for value in found if value in self.arrays and value not in known]

    def _lazy_below(self, values: Iterable[Value], known: set[Value]) -> list[Op]:
        found: dict[Op, None] = {}
        seen: set[Value] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if value in seen or value in known or not value.type.shape:
                continue
            seen.add(value)
            op = self.definitions.get(value)
            if op is not None and is_lazy(op):
                found[op] = None
                stack.extend(op.operands)
        return list(found)


def analyse(function: Function, uses: Uses) -> None:
    """Decide, for a whole function, what is kept, and add the facts to `uses`."""
    for op in walk(function.body):
        for value in op.results:
            uses.definitions[value] = op
        for value in op.reads:
            uses.users.setdefault(value, []).append(op)
    _analyse_region(function.body, uses)


def _analyse_region(region: Region, uses: Uses) -> None:
    everywhere = {value for block in region.blocks for op in block.ops for value in _outside_reads(op)}
    for block in region.blocks:
        for number, op in enumerate(block.ops):
            uses.position[op] = number
            if not is_lazy(op) or op.name == "tt.load" or any(value in uses.data for value in op.operands):
                uses.data.update(op.results)
            if is_lazy(op):
                below = sum(uses.cost.get(value, 0) for value in set(op.operands) if value not in uses.arrays)
                uses.cost[op.result] = min(own_cost(op) + below, 1 << 20)
            for inner in op.regions:
                _analyse_region(inner, uses)
        _keep(block, uses, everywhere if len(region.blocks) > 1 else set())


def _outside_reads(op: Op) -> set[Value]:
    """Values that an operation, its regions included, takes from around it."""
    reads = set(op.reads)
    inner: set[Value] = set()
    for region in op.regions:
        for block in region.blocks:
            inner.update(block.arguments)
        for nested in walk(region):
            reads.update(nested.reads)
            inner.update(nested.results)
            for deeper in nested.regions:
                inner.update(value for block in deeper.blocks for value in block.arguments)
    return reads - inner


class _Root(NamedTuple):
    """Who needs a value: the root's place, whether it has regions, and the operation whose loop computes it."""

    position: int
    nested: bool
    loop: int


def _keep(block: Block, uses: Uses, elsewhere: set[Value]) -> None:
    """Walk a block backwards, collecting each lazy value's roots. Other blocks' reads count for the terminator."""
    roots: dict[Value, set[_Root]] = {}
    widened: set[Value] = set()
    for number in range(len(block.ops) - 1, -1, -1):
        op = block.ops[number]
        if is_lazy(op):
            mine = set().union(*(roots.get(value, set()) for value in op.results))
            repeats = _repeats(op)
            moved = any(value in widened for value in op.results)
            grows = moved or repeats
            kept = _should_keep(op, mine, moved, uses)
            if kept:
                uses.arrays.update(op.results)
            if mine:
                for value in op.results:
                    uses.last_root[value] = max(root.position for root in mine)
            if kept and mine:
                first = min(mine)
                mine = {first._replace(loop=number) if moved else first}
            positions = array_operands(op, uses.lanes)
            for at, value in enumerate(op.operands):
                # A kept value reads its operands once, in its own loop, but no earlier than its first root.
                roots.setdefault(value, set()).update(mine)
                if grows and not kept:
                    widened.add(value)
                if at in positions:
                    uses.arrays.add(value)
            continue
        nested = bool(op.regions) and op.name not in ("tt.reduce", "tt.scan")
        reads = _outside_reads(op)
        if number == len(block.ops) - 1:
            reads |= elsewhere
        for value in reads:
            roots.setdefault(value, set()).add(_Root(number, nested, number))
        uses.arrays.update(op.operands[at] for at in array_operands(op, uses.lanes))
    for value, found in roots.items():
        if value not in uses.last_root:
            uses.last_root[value] = max((root.position for root in found), default=-1)


def _repeats(op: Op) -> bool:
    """Whether elements of the operands are computed more than once for one look at each element of the result."""
    return (op.name == "tt.broadcast" and op.operands[0].type.shape != op.result.type.shape) or is_pair(op)


def _only_for_pairs(op: Op, uses: Uses) -> bool:
    """A cheap step before picking one of two, a product with 0 or 1: what it starts from is the value to keep."""
    return own_cost(op) <= 1 and all(is_pair(user) for user in uses.users.get(op.result, ()))


def _should_keep(op: Op, roots: set[_Root], widened: bool, uses: Uses) -> bool:
    value = op.result
    if value in uses.arrays:
        return True
    if not roots or op.name in _FREE or is_pair(op) or _only_for_pairs(op, uses):
        return False
    in_loop = any(root.nested for root in roots)
    cost = uses.cost.get(value, 0)
    if op.name == "tt.load":
        return len(roots) > 1 or in_loop
    if value not in uses.data and not value.type.is_float and cost < 40:
        return False  # index arithmetic: an expression keeps its linear form
    return cost >= _KEEP_COST and (len(roots) > 1 or in_loop or widened)

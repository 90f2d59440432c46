"""Rewrites what a front end spells in a roundabout way, before the analysis.

One pattern so far. `tl.sort`, `tl.topk` and `tl.flip` exchange the halves of a dimension of size 2 by
`x ^ xor_sum(x, axis)`: each element becomes its neighbour along that axis. As an operation of its own, `ks.flip`, it is
index arithmetic instead of a reduction. Called by `codegen`; `evaluate` knows `ks.flip`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernelsmith.triton_cpu.read.ir import Block, Function, Module, Op, Region, Value, walk

FLIP = "ks.flip"
_REPLACED = ("tt.broadcast", "tt.expand_dims", "tt.reduce", "tt.bitcast", FLIP)


def simplify(module: Module) -> Module:
    """The same module with neighbours instead of sums; reductions that nobody reads any more are gone."""
    return Module({name: _function(function) for name, function in module.functions.items()})


def _function(function: Function) -> Function:
    ops = list(walk(function.body))
    definitions = {value: op for op in ops for value in op.results}
    flips = {op: flip for op in ops if (flip := _as_flip(op, definitions)) is not None}
    if not flips:
        return function
    flips |= {op: flip for op in ops if (flip := _of_floats(op, definitions, flips)) is not None}
    return replace(function, body=_region(function.body, flips, _unread([flips.get(op, op) for op in ops])))


def _unread(ops: list[Op]) -> set[Op]:
    """Sums, and what else made the detour, whose results no other operation reads."""
    removed: set[Op] = set()
    while True:
        read = {value for op in ops if op not in removed for value in op.reads}
        more = {op for op in ops if op.name in _REPLACED and op not in removed and read.isdisjoint(op.results)}
        if not more:
            return removed
        removed |= more


def _as_flip(op: Op, definitions: Mapping[Value, Op]) -> Op | None:
    if op.name != "arith.xori":
        return None
    for x, other in (op.operands, op.operands[::-1]):
        axis = _summed_axis(x, other, definitions)
        if axis is not None:
            return replace(op, name=FLIP, operands=(x,), attributes={"axis": axis})
    return None


def _of_floats(op: Op, definitions: Mapping[Value, Op], flips: Mapping[Op, Op]) -> Op | None:
    """Floats take the way through integers of their size, which neighbours need not."""
    flip = flips.get(definitions[op.operands[0]]) if op.name == "tt.bitcast" and op.operands[0] in definitions else None
    before = definitions.get(flip.operands[0]) if flip is not None else None
    if flip is None or before is None or before.name != "tt.bitcast" or before.operands[0].type != op.result.type:
        return None
    return replace(op, name=FLIP, operands=before.operands, attributes=flip.attributes)


def _summed_axis(x: Value, value: Value, definitions: Mapping[Value, Op]) -> int | None:
    """The axis of size 2 along which `value` is the repeated exclusive or of `x`."""
    names = []
    while (op := definitions.get(value)) is not None and op.name in ("tt.broadcast", "tt.expand_dims"):
        names.append(op)
        value = op.operands[0]
    if op is None or op.name != "tt.reduce" or op.operands != (x,) or not names:
        return None
    axis = op.integer("axis")
    body = op.regions[0].entry
    first = body.ops[0]
    combines = len(body.ops) == 2 and first.name == "arith.xori" and set(first.operands) == set(body.arguments)
    expanded = [step.integer("axis") for step in names if step.name == "tt.expand_dims"]
    return axis if combines and expanded == [axis] and x.type.shape[axis] == 2 else None


def _region(region: Region, flips: Mapping[Op, Op], removed: set[Op]) -> Region:
    def rebuilt(op: Op) -> Op:
        return replace(op, regions=tuple(_region(inner, flips, removed) for inner in op.regions)) if op.regions else op

    def ops(block: Block) -> tuple[Op, ...]:
        return tuple(rebuilt(op) for op in (flips.get(op, op) for op in block.ops) if op not in removed)

    return Region(tuple(Block(block.label, block.arguments, ops(block)) for block in region.blocks))

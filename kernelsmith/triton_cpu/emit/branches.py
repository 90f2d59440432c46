"""Control flow between the blocks of a function: `cf.br`, `cf.cond_br`, `tt.return`.

A block is emitted inside the C++ scope of its immediate dominator, so that everything it may name is in sight: in place
where only one branch leads to it, else behind a label after the dominator's end, and reached by `goto`. Such a jump
only ever leaves scopes, and enters none that declares anything. Dominators: Cooper, Harvey and Kennedy, "A simple, fast
dominance algorithm" (2001).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kernelsmith.triton_cpu.emit.atomics import is_volatile
from kernelsmith.triton_cpu.emit.carried import Carried, alias, assign, bind, declare, scalar_of
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.emit.statements import emit_block, settle
from kernelsmith.triton_cpu.errors import TtirError
from kernelsmith.triton_cpu.read.ir import Block, Op, Region, Successor, walk

Control = Callable[[Scope, Block, int], bool]


@dataclass
class _Graph:
    """The blocks that can be reached, in reverse postorder, with the number of branches into each and its dominator."""

    order: list[Block] = field(default_factory=list)
    entries: dict[Block, int] = field(default_factory=dict)
    parents: dict[Block, Block] = field(default_factory=dict)

    def children(self, block: Block) -> list[Block]:
        return [child for child in self.order if self.parents.get(child) is block]


def _targets(blocks: dict[str, Block], block: Block) -> list[Block]:
    successors = block.ops[-1].successors if block.ops else ()
    found: list[Block] = []
    for successor in successors:
        target = blocks.get(successor.block)
        if target is None or [a.type for a in target.arguments] != [o.type for o in successor.operands]:
            raise TtirError(f"no block {successor.block} takes these {len(successor.operands)} values")
        found.append(target)
    return found


def _graph(entry: Block, blocks: dict[str, Block]) -> _Graph:
    sources: dict[Block, list[Block]] = {entry: []}
    order: list[Block] = []
    stack = [(entry, iter(_targets(blocks, entry)))]
    while stack:
        block, rest = stack[-1]
        target = next(rest, None)
        if target is None:
            order.insert(0, block)
            stack.pop()
            continue
        if target not in sources:
            sources[target] = []
            stack.append((target, iter(_targets(blocks, target))))
        sources[target].append(block)
    if sources[entry]:
        raise TtirError("no branch may lead to the first block")
    return _Graph(order, {block: len(found) for block, found in sources.items()}, _dominators(order, sources))


def _dominators(order: list[Block], sources: dict[Block, list[Block]]) -> dict[Block, Block]:
    """Immediate dominators; the first block has none."""
    number = {block: at for at, block in enumerate(order)}
    parents = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [source for source in sources[block] if source in parents]
            common = known[0]
            for other in known[1:]:
                while common is not other:
                    if number[common] > number[other]:
                        common = parents[common]
                    else:
                        other = parents[other]
            changed = changed or parents.get(block) is not common
            parents[block] = common
    del parents[order[0]]
    return parents


def emit_blocks(scope: Scope, region: Region, finish: Callable[[Op | None], None], control: Control) -> None:
    """Emit a region from its first block on; `finish` does what its end asks for, given `tt.return` or the like."""
    blocks = {block.label: block for block in region.blocks}
    graph = _graph(region.entry, blocks)
    waits = any(op.name.startswith("tt.atomic") or is_volatile(op) for op in walk(region))
    _Emission(scope, blocks, graph, finish, control, waits).block(region.entry)


@dataclass
class _Emission:
    """One region while it is being emitted. `labels` and `homes` are those of blocks that several branches reach."""

    scope: Scope
    blocks: dict[str, Block]
    graph: _Graph
    finish: Callable[[Op | None], None]
    control: Control
    waits: bool
    labels: dict[Block, str] = field(default_factory=dict)
    homes: dict[Block, list[Carried]] = field(default_factory=dict)
    begun: set[Block] = field(default_factory=set)

    def block(self, block: Block) -> None:
        scope = self.scope
        self.begun.add(block)
        terminator = emit_block(scope, block, self.control)
        if terminator is None or not terminator.successors:
            self.finish(terminator)
            scope.write("return;")
            return
        settle(scope, block, len(block.ops) - 1, include=True)
        joins = [child for child in self.graph.children(block) if self.graph.entries[child] > 1]
        for join in joins:
            self.labels[join] = scope.fresh("block")
            self.homes[join] = [Carried(value, declare(scope, value, None)) for value in join.arguments]
        self.branches(terminator)
        for join in joins:
            scope.write(f"{self.labels[join]}:;")
            with scope.region("{"):
                for item in self.homes[join]:
                    bind(scope, item.value, item.home)
                self.block(join)

    def branches(self, terminator: Op) -> None:
        if terminator.name == "cf.br":
            with self.scope.region("{"):
                self.follow(terminator.successors[0])
            return
        condition = scalar_of(self.scope, terminator.operands[0])
        for header, successor in zip((f"if ({condition}) {{", "else {"), terminator.successors, strict=True):
            with self.scope.region(header):
                self.follow(successor)

    def follow(self, successor: Successor) -> None:
        target = self.blocks[successor.block]
        if self.graph.entries[target] == 1:
            for argument, operand in zip(target.arguments, successor.operands, strict=True):
                alias(self.scope, argument, operand)
            self.block(target)
            return
        assign(self.scope, self.homes[target], successor.operands)
        if self.waits and target in self.begun:
            self.scope.waits = True
            self.scope.write("ks_pause();")
            if self.scope.checks is not None:
                self.scope.write(self.scope.checks.goes_on(target.ops[-1]))
        self.scope.write(f"goto {self.labels[target]};")

"""The places in a kernel that a checked build reports about, and which argument a pointer comes from.

A site is an operation of the TTIR; its number travels through the generated code and comes back in a report. Filled by
`checking` while a kernel is emitted, kept beside the compiled code, read by `monitor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kernelsmith.triton_cpu.read.ir import Block, Function, Op, Region, Value

_SAME_POINTER = frozenset(
    ("tt.addptr", "tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans")
) | {"tt.bitcast", "arith.bitcast"}


@dataclass(frozen=True)
class Site:
    """One operation that can be at fault.

    Attributes:
        operation: its name in TTIR.
        value: the kernel's own name for what it yields or stores, if TTIR kept one.
        location: `file:line` of the kernel's source, if TTIR tells.
        shape: of the tile whose lanes it counts.
        message: of an assertion.
    """

    operation: str
    value: str
    location: str | None
    shape: tuple[int, ...]
    message: str = ""

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Site:
        """Raises KeyError or TypeError for facts of another form."""
        return cls(**{**facts, "shape": tuple(facts["shape"])})


@dataclass(frozen=True)
class Accesses:
    """What a checked kernel does to memory, by number of the argument; -1 stands for an address of unknown origin.

    Attributes:
        stamped: stores whose lanes might meet, or atomics, occur: stores must be told apart.
        synchronises: a program instance can learn from an atomic operation what others did.
        patterned: masked-off lanes without a given value, or divisions of lanes, occur.
    """

    loaded: tuple[int, ...]
    stored: tuple[int, ...]
    stamped: bool
    synchronises: bool
    patterned: bool

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Accesses:
        """Raises KeyError or TypeError for facts of another form."""
        return cls(**{**facts, "loaded": tuple(facts["loaded"]), "stored": tuple(facts["stored"])})


@dataclass(frozen=True)
class Watch:
    """What the monitor has to know about a kernel that it watches.

    `checked` is false where only assertions are reported; `names` are those of the kernel's arguments.
    """

    checked: bool
    names: tuple[str, ...]
    sites: tuple[Site, ...]
    accesses: Accesses

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Watch:
        """Raises KeyError or TypeError for facts of another form."""
        sites = tuple(map(Site.from_json, facts["sites"]))
        return cls(bool(facts["checked"]), tuple(facts["names"]), sites, Accesses.from_json(facts["accesses"]))


class Sites:
    """Numbers the sites of one kernel, and answers where its pointers come from."""

    def __init__(self) -> None:
        self.table: list[Site] = []
        self._numbers: dict[Op, int] = {}
        self._origins: dict[Value, int | None] = {}

    def number(self, op: Op, shape: tuple[int, ...], message: str = "") -> int:
        if op not in self._numbers:
            value = op.results[0].name if op.results else ""
            self._numbers[op] = len(self.table)
            self.table.append(Site(op.name, value.lstrip("%"), op.location, shape, message))
        return self._numbers[op]

    def origin(self, pointer: Value) -> int | None:
        """The number of the argument that a pointer was computed from; None if it is not the same on every path."""
        return self._origins.get(pointer)

    def trace(self, function: Function, arguments: Mapping[Value, int | None]) -> None:
        """Follow every pointer of a function; `arguments` says what its parameters are.

        Loops are followed until nothing changes: a value that meets two arguments comes from none.
        """
        for value, number in arguments.items():
            self._meet(value, number)
        while self._pass(function.body):
            pass

    def _meet(self, value: Value, number: int | None) -> bool:
        """Add a source; True if that changed anything."""
        if value not in self._origins:
            self._origins[value] = number
            return True
        if self._origins[value] in (number, None):
            return False
        self._origins[value] = None
        return True

    def _flow(self, source: Value, target: Value) -> bool:
        return target.type.pointer and source in self._origins and self._meet(target, self._origins[source])

    def _pass(self, region: Region) -> bool:
        changed = False
        blocks = {block.label: block for block in region.blocks}
        for block in region.blocks:
            for op in block.ops:
                changed |= self._step(op, blocks)
        return changed

    def _step(self, op: Op, blocks: Mapping[str, Block]) -> bool:
        pairs: list[tuple[Value, Value]] = []
        if op.name in _SAME_POINTER:
            pairs = [(op.operands[0], op.result)]
        elif op.name in ("arith.select", "tt.cat", "tt.join"):
            pairs = [(value, op.result) for value in op.operands if value.type.pointer]
        elif op.name in ("scf.for", "scf.while", "scf.if"):
            pairs = _region_flow(op)
        changed = False
        for successor in op.successors:
            target = blocks.get(successor.block)
            if target is not None:
                pairs += zip(successor.operands, target.arguments, strict=False)
        for source, target_value in pairs:
            changed |= self._flow(source, target_value)
        if not pairs and not op.regions:
            for value in op.results:
                if value.type.pointer:
                    changed |= self._meet(value, None)
        for inner in op.regions:
            changed |= self._pass(inner)
        return changed


def _region_flow(op: Op) -> list[tuple[Value, Value]]:
    """What moves into and out of the regions of structured control flow."""
    ends = [region.entry.ops[-1].operands if region.entry.ops else () for region in op.regions]
    pairs: list[tuple[Value, Value]] = []
    if op.name == "scf.if":
        for end in ends:
            pairs += zip(end, op.results, strict=False)
    elif op.name == "scf.for":
        carried = op.regions[0].entry.arguments[1:]
        for values in (op.operands[3:], ends[0]):
            pairs += zip(values, carried, strict=False)
        pairs += zip(carried, op.results, strict=False)
    else:
        before, after = (region.entry.arguments for region in op.regions)
        pairs += [*zip(op.operands, before, strict=False), *zip(ends[1], before, strict=False)]
        for targets in (after, op.results):
            pairs += zip(ends[0][1:], targets, strict=False)
    return pairs

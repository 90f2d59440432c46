"""Counts what a kernel's launches do, by following its TTIR: bytes of global memory in whole transactions, operations
by unit, atomics.

Nothing of the candidate is run here. A few programs, spread over the grid, are followed operation by operation with
what `indices` knows (masks count, addresses are told apart by transaction). How often each block is entered by all
programs together is known where the kernel was run with counters (`tallied`): each block's work is taken that often,
so that no loop, branch or program hides any. Else what was followed is scaled to the grid; a branch whose condition was
loaded is taken then, and a loop whose bounds were loaded goes round once, and both are said. What is shared between
programs is extrapolated from how much of the second half of them was new. Bounded in operations, since the text is
hostile. Called in the compiler's process and by tests.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelsmith.estimate import Unit, Work
from kernelsmith.offline.indices import Known, known_result
from kernelsmith.offline.tallied import blocks
from kernelsmith.offline.wire import Count, Counted, Launched
from kernelsmith.triton_cpu.read.ir import Block, Element, Function, Module, Op, Region, Type, Value
from kernelsmith.triton_cpu.read.parse import parse

PROGRAMS = 16
"""That are followed of a launch."""
MOST_OPERATIONS = 150_000
"""Of all followed programs of a launch together; a matrix product of 4,096 has 3,000 in a program of it."""
MOST_DEPTH = 64
_SPECIAL = frozenset(
    f"math.{name}" for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf")
) | {"arith.divf", "tt.precise_divf", "tt.precise_sqrt", "tt.extern_elementwise"}
_TWO = frozenset({"math.fma"})
_FREE = frozenset(
    {"arith.constant", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.make_range", "tt.trans"}
    | {"tt.bitcast", "tt.unsplat", "tt.join", "tt.split", "tt.cat", "tt.assert", "tt.print", "tt.addptr", "scf.yield"}
)
"""Moves that registers or addresses absorb."""
_MATRIX = {1: Unit.MATRIX_8, 2: Unit.MATRIX_16}
_VECTOR = {1: Unit.VECTOR_16, 2: Unit.VECTOR_16, 4: Unit.VECTOR_32, 8: Unit.VECTOR_64}

BUFFER_BITS = 44
"""Addresses are made up: the number of a buffer, and so many bits for the byte in it."""


class _Enough(Exception):  # noqa: N818 - a limit of ours was reached; what was counted so far is scaled
    pass


@dataclass
class _Tally:
    """What was followed in one block, or of a whole launch."""

    entered: int = 0
    read: float = 0.0
    written: float = 0.0
    again: float = 0.0
    """Bytes that the same program had touched before."""
    rounds: float = 0.0
    """Entries, if anything is loaded; whatever an entry loads is waited for together."""
    asked: float = 0.0
    atomics: float = 0.0
    unknown: float = 0.0
    """Bytes at addresses that are not known; taken for distinct ones."""
    operations: Counter[Unit] = field(default_factory=Counter)
    issues: Counter[Unit] = field(default_factory=Counter)

    @property
    def moved(self) -> float:
        return self.read + self.written

    def add(self, other: _Tally, scale: float) -> None:
        for name in ("read", "written", "again", "rounds", "asked", "atomics", "unknown"):
            setattr(self, name, getattr(self, name) + scale * getattr(other, name))
        self.operations.update({unit: math.ceil(scale * number) for unit, number in other.operations.items()})
        self.issues.update({unit: math.ceil(scale * number) for unit, number in other.issues.items()})

    def do(self, unit: Unit, number: int, issues: int = 1) -> None:
        """So many operations on elements, in so many on blocks."""
        self.operations[unit] += number
        self.issues[unit] += issues


def count(request: Count) -> Counted:
    """The work of all launches of one kernel on one workload. Raises TtirError, UnsupportedConstruct, and ValueError
    for a text whose blocks are not those that were counted."""
    module, transaction = parse(request.kernel.ttir), request.transaction_bytes
    total = _Tally()
    programs, distinct = 0, 0.0
    assumed: dict[str, None] = {}
    for launch in request.launches:
        if not math.prod(launch.grid):
            continue
        follower = _Follower(module, launch, request.buffers, transaction)
        follower.follow()
        whole = follower.whole()
        assumed |= follower.assumed
        programs += math.prod(launch.grid)
        distinct += follower.distinct(whole)
        total.add(whole, 1)
    read, written = round(total.read), round(total.written)
    work = Work(
        kernel=request.kernel.name,
        launches=len(request.launches),
        programs=programs,
        read_bytes=read,
        written_bytes=written,
        distinct_bytes=min(round(distinct), read + written),
        again_bytes=min(round(total.again), read + written),
        rounds=round(total.rounds),
        asked_bytes=round(total.asked),
        transaction_bytes=transaction,
        atomics=round(total.atomics),
        operations=dict(total.operations),
        issues=dict(total.issues),
    )
    return Counted(work=work, assumed=tuple(assumed))


class _Follower:
    """Follows programs of one launch; `assumed` grows."""

    def __init__(self, module: Module, launch: Launched, buffers: Mapping[int, int], transaction: int) -> None:
        self._module = module
        self._launch = launch
        self._buffers = buffers
        self._transaction = transaction
        self._left = MOST_OPERATIONS
        self._depth = 0
        self._program = (0, 0, 0)
        self._followed = 0
        """Programs, to their ends or begun."""
        self._tallies: dict[Block, _Tally] = defaultdict(_Tally)
        self._here = _Tally()
        """Of the block that is followed now."""
        self._touched: dict[int, set[int]] = defaultdict(set)
        """Numbers of transactions, by buffer."""
        self._own: dict[int, set[int]] = defaultdict(set)
        """The same of the program that is followed now."""
        self._grown: list[dict[int, int]] = []
        """After each program: distinct transactions by buffer."""
        self.assumed: dict[str, None] = {}

    def follow(self) -> None:
        """Follow programs, as many as may be."""
        x, y, _ = self._launch.grid
        arguments = [None if a is None else _number(a) for a in self._launch.arguments]
        for number in _spread(math.prod(self._launch.grid)):
            self._program = (number % x, number // x % y, number // x // y)
            self._followed += 1
            self._own.clear()
            try:
                self._function(self._module.kernel, arguments)
            except _Enough:
                self.assumed["programs are too long to be followed to their ends: what came first was counted"] = None
                break
            finally:
                self._grown.append({buffer: len(found) for buffer, found in self._touched.items()})

    def whole(self) -> _Tally:
        """The work of all programs: of each block as often as it was entered, or as the programs that were followed."""
        total, entries = _Tally(), self._launch.entries
        if entries is None:
            for tally in self._tallies.values():
                total.add(tally, math.prod(self._launch.grid) / self._followed)
            return total
        self.assumed.clear()  # how often, and by which way, is known
        entered = dict(zip(blocks(self._module), entries, strict=True))
        if entered.get(self._module.kernel.body.entry) != math.prod(self._launch.grid):
            raise ValueError("its counters do not say that each of its programs began once")
        for block, times in entered.items():
            if times and not self._tallies[block].entered:
                self.assumed["what no program that was followed reached is taken for loads and stores apart"] = None
                self._enter(block)
                for op in block.ops:
                    self._work(op, [None] * len(op.operands))
            if times:
                total.add(self._tallies[block], times / self._tallies[block].entered)
        return total

    def distinct(self, whole: _Tally) -> float:
        """Bytes that all programs touch together: the second half of those followed says how much each brings, and no
        buffer has more than its size. Where they did more than what was followed tells, they touched more."""
        programs, followed = math.prod(self._launch.grid), self._followed
        expected = sum(tally.moved for tally in self._tallies.values()) * programs / followed
        more = max(1.0, whole.moved / expected) if expected else 1.0
        half = len(self._grown) // 2
        earlier = self._grown[half - 1] if half else {}
        total = 0.0
        for buffer, touched in self._grown[-1].items():
            new = (touched - earlier.get(buffer, 0)) / max(1, len(self._grown) - half)
            size = math.ceil(self._buffers.get(buffer, 0) / self._transaction)
            total += min(more * (touched + new * (programs - followed)), max(touched, size)) * self._transaction
        return total + min(whole.unknown, sum(self._buffers.values()))

    # ---------------------------------------------------------------- operations

    def _function(self, function: Function, arguments: Sequence[Known | None]) -> list[Known | None]:
        values: dict[Value, Known | None] = dict(zip(function.arguments, arguments, strict=False))
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise _Enough
        blocks = {block.label: block for block in function.body.blocks}
        block: Block | None = function.body.entry
        found: list[Known | None] = []
        while block is not None:
            block, found = self._block(block, values, blocks)
        self._depth -= 1
        return found

    def _block(
        self, block: Block, values: dict[Value, Known | None], blocks: dict[str, Block]
    ) -> tuple[Block | None, list[Known | None]]:
        """What follows it, and what the operation at its end hands on."""
        self._step()
        self._enter(block)
        for op in block.ops:
            given = [values.get(v) for v in op.operands]
            if op.successors:
                taken = op.successors[self._branch(given) if len(op.successors) > 1 else 0]
                target = blocks[taken.block]
                values.update(zip(target.arguments, [values.get(v) for v in taken.operands], strict=False))
                return target, []
            if op.name.endswith((".yield", ".return", "scf.condition")):
                return None, given
            values.update(zip(op.results, self._op(op, given, values), strict=False))
            self._here = self._tallies[block]  # an operation with regions has left it
        return None, []

    def _step(self) -> None:
        """A block is one too: loops go round whatever is in them."""
        self._left -= 1
        if self._left < 0:
            raise _Enough

    def _enter(self, block: Block) -> None:
        self._here = self._tallies[block]
        self._here.entered += 1

    def _region(
        self, region: Region, values: dict[Value, Known | None], given: Sequence[Known | None]
    ) -> list[Known | None]:
        values.update(zip(region.entry.arguments, given, strict=False))
        return self._block(region.entry, values, {})[1]

    def _branch(self, given: Sequence[Known | None]) -> int:
        if given and given[0] is not None:
            return 0 if bool(np.all(given[0])) else 1
        self.assumed["a branch on loaded data is taken"] = None
        return 0

    def _op(self, op: Op, given: list[Known | None], values: dict[Value, Known | None]) -> list[Known | None]:
        self._step()
        match op.name:
            case "scf.for":
                return self._for(op, given, values)
            case "scf.while":
                return self._while(op, given, values)
            case "scf.if":
                branch = self._branch(given[:1])
                return self._region(op.regions[branch], values, ()) if branch < len(op.regions) else []
            case "tt.call":
                callee = self._module.functions.get(op.text("callee").lstrip("@"))
                return self._function(callee, given) if callee is not None else [None] * len(op.results)
            case "tt.get_program_id":
                return [_number(self._program["xyz".index(op.words[0])])]
            case "tt.get_num_programs":
                return [_number(self._launch.grid["xyz".index(op.words[0])])]
        self._work(op, given)
        if len(op.results) != 1:
            return [None] * len(op.results)
        with contextlib.suppress(ValueError, IndexError, OverflowError):  # a malformed text: the value is not known
            return [known_result(op, given)]
        return [None]

    def _for(self, op: Op, given: list[Known | None], values: dict[Value, Known | None]) -> list[Known | None]:
        low, high, step = given[:3]
        carried = given[3:]
        if low is None or high is None or step is None or int(step) <= 0:
            self.assumed["a loop whose bounds are loaded goes round once"] = None
            return self._region(op.regions[0], values, [low, *carried])
        for number in range(int(low), int(high), int(step)):
            carried = self._region(op.regions[0], values, [_number(number), *carried])
        return carried

    def _while(self, op: Op, given: list[Known | None], values: dict[Value, Known | None]) -> list[Known | None]:
        carried = given
        while True:
            condition, *handed = self._region(op.regions[0], values, carried)
            if condition is not None and not bool(np.all(condition)):
                return handed
            carried = self._region(op.regions[1], values, handed)
            if condition is None:
                self.assumed["a loop that ends on loaded data goes round once"] = None
                return handed

    # ---------------------------------------------------------------- what they cost

    def _work(self, op: Op, given: list[Known | None]) -> None:
        match op.name:
            case "tt.load":
                self._here.rounds = self._here.entered
                self._here.read += self._access(given[0], given[1] if len(given) > 1 else None, op.result.type)
            case "tt.store":
                mask = given[2] if len(given) > 2 else None
                self._here.written += self._access(given[0], mask, op.operands[1].type)
            case "tt.atomic_rmw" | "tt.atomic_cas":
                kind = op.operands[1].type
                mask = given[2] if len(given) > 2 and op.name == "tt.atomic_rmw" else None
                self._here.written += self._access(given[0], mask, kind)
                self._here.atomics += kind.count if mask is None else int(np.count_nonzero(mask))
            case "tt.dot" | "tt.dot_scaled":
                a, c = op.operands[0].type, op.result.type
                self._here.do(_MATRIX.get(a.element.bytes, Unit.MATRIX_32), 2 * c.count * a.shape[-1])
            case "tt.reduce" | "tt.scan":
                kind = op.operands[0].type
                inner = sum(len(block.ops) for region in op.regions for block in region.blocks) - 1
                self._here.do(_unit(kind), max(1, inner) * kind.count, max(1, inner))
            case name if name not in _FREE and op.results and not op.regions:
                kind = op.result.type
                unit = Unit.SPECIAL if name in _SPECIAL and kind.shape != () else _unit(kind)
                self._here.do(unit, kind.count * (2 if name in _TWO else 1))

    def _access(self, addresses: Known | None, mask: Known | None, kind: Type) -> float:
        """Bytes that move, in whole transactions."""
        size, transaction = kind.element.bytes, self._transaction
        lanes = kind.count if mask is None else int(np.count_nonzero(mask))
        self._here.asked += lanes * size
        if addresses is None:
            moved = float(lanes * max(size, transaction))
            self._here.unknown += moved
            return moved
        chosen = addresses if mask is None else np.broadcast_to(addresses, mask.shape)[mask.astype(bool)]
        parts = np.union1d(chosen // transaction, (chosen + size - 1) // transaction)
        for buffer in np.unique(parts * transaction >> BUFFER_BITS).tolist():
            own = parts[parts * transaction >> BUFFER_BITS == buffer]
            touched, before = set(own.tolist()), self._own[buffer]
            self._here.again += len(touched & before) * transaction
            before |= touched
            self._touched[buffer] |= touched
        return float(len(parts) * transaction)


def _number(value: int) -> Known:
    return np.array(value, dtype=np.int64)


def _unit(kind: Type) -> Unit:
    if not kind.shape:
        return Unit.SCALAR
    return Unit.VECTOR_32 if kind.element is Element.I1 or kind.pointer else _VECTOR[kind.element.bytes]


def _spread(programs: int) -> list[int]:
    """Numbers of programs, spread over the grid, first and last among them; pairs of neighbours share what they do."""
    if programs <= PROGRAMS:
        return list(range(programs))
    return sorted({round(i * (programs - 1) / (PROGRAMS - 1)) for i in range(PROGRAMS)})

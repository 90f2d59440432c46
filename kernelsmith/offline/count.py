"""Counts what a kernel's launches do, by following its TTIR: bytes of global memory in whole transactions, operations
by unit, atomics.

Nothing of the candidate is run. A few programs, spread over the grid, are followed operation by operation with what
`indices` knows (loops go round, masks count, addresses are told apart by transaction), and what they do is scaled to
the grid. What is shared between programs is extrapolated from how much of the second half of them was new. A branch
whose condition was loaded is taken, and a loop whose bounds were loaded goes round once; both are said. Bounded in
operations, since the text is hostile. Called in the compiler's process and by tests.
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
    """Of the programs that were followed of one launch."""

    transaction: int
    read: float = 0.0
    written: float = 0.0
    asked: float = 0.0
    atomics: float = 0.0
    unknown: float = 0.0
    """Bytes at addresses that are not known; taken for distinct ones."""
    operations: Counter[Unit] = field(default_factory=Counter)
    touched: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Numbers of transactions, by buffer."""

    def access(self, addresses: Known | None, mask: Known | None, kind: Type, *, store: bool) -> None:
        size = kind.element.bytes
        lanes = kind.count if mask is None else int(np.count_nonzero(mask))
        self.asked += lanes * size
        if addresses is None:
            moved = float(lanes * max(size, self.transaction))
            self.unknown += moved
        else:
            chosen = addresses if mask is None else np.broadcast_to(addresses, mask.shape)[mask.astype(bool)]
            parts = np.union1d(chosen // self.transaction, (chosen + size - 1) // self.transaction)
            moved = float(len(parts) * self.transaction)
            for buffer in np.unique(parts * self.transaction >> BUFFER_BITS).tolist():
                own = parts[parts * self.transaction >> BUFFER_BITS == buffer]
                self.touched[buffer].update(own.tolist())
        if store:
            self.written += moved
        else:
            self.read += moved


def count(request: Count) -> Counted:
    """The work of all launches of one kernel on one workload. Raises TtirError and UnsupportedConstruct."""
    module, transaction = parse(request.kernel.ttir), request.transaction_bytes
    total = Counter[str]()
    operations = Counter[Unit]()
    assumed: dict[str, None] = {}
    for launch in request.launches:
        programs = math.prod(launch.grid)
        if not programs:
            continue
        follower = _Follower(module, launch, request.buffers, transaction)
        share = follower.follow()
        tally = follower.tally
        assumed |= follower.assumed
        scale = programs / share
        total["programs"] += programs
        for what, number in (("read", tally.read), ("written", tally.written), ("asked", tally.asked)):
            total[what] += round(number * scale)
        total["atomics"] += round(tally.atomics * scale)
        total["distinct"] += round(follower.distinct(programs, share))
        operations.update({unit: round(number * scale) for unit, number in tally.operations.items()})
    work = Work(
        kernel=request.kernel.name,
        launches=len(request.launches),
        programs=total["programs"],
        read_bytes=total["read"],
        written_bytes=total["written"],
        distinct_bytes=min(total["distinct"], total["read"] + total["written"]),
        asked_bytes=total["asked"],
        transaction_bytes=transaction,
        atomics=total["atomics"],
        operations=dict(operations),
    )
    return Counted(work=work, assumed=tuple(assumed))


class _Follower:
    """Follows programs of one launch; `tally` and `assumed` grow."""

    def __init__(self, module: Module, launch: Launched, buffers: Mapping[int, int], transaction: int) -> None:
        self._module = module
        self._launch = launch
        self._buffers = buffers
        self._left = MOST_OPERATIONS
        self._depth = 0
        self._program = (0, 0, 0)
        self.tally = _Tally(transaction)
        self.assumed: dict[str, None] = {}
        self._grown: list[dict[int, int]] = []
        """After each program: distinct transactions by buffer."""

    def follow(self) -> int:
        """Follow programs; returns how many."""
        numbers = _spread(math.prod(self._launch.grid))
        x, y, _ = self._launch.grid
        arguments = [None if a is None else _number(a) for a in self._launch.arguments]
        for done, number in enumerate(numbers):
            self._program = (number % x, number // x % y, number // x // y)
            try:
                self._function(self._module.kernel, arguments)
            except _Enough:
                if not done:
                    self.assumed["a program is too long to be followed to its end: its first part was counted"] = None
                    self._look()
                    return 1
                return done  # the few operations of the program that was cut short weigh little
            self._look()
        return len(numbers)

    def _look(self) -> None:
        self._grown.append({buffer: len(found) for buffer, found in self.tally.touched.items()})

    def distinct(self, programs: int, followed: int) -> float:
        """Bytes that all programs touch together: the second half of those followed says how much each brings, and no
        buffer has more than its size."""
        half = len(self._grown) // 2
        earlier = self._grown[half - 1] if half else {}
        total = 0.0
        for buffer, touched in self._grown[-1].items():
            new = (touched - earlier.get(buffer, 0)) / max(1, len(self._grown) - half)
            whole = math.ceil(self._buffers.get(buffer, 0) / self.tally.transaction)
            total += min(touched + new * (programs - followed), max(touched, whole)) * self.tally.transaction
        return total + min(self.tally.unknown * programs / followed, sum(self._buffers.values()))

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
        return None, []

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
        self._left -= 1
        if self._left < 0:
            raise _Enough
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
            return self._region(op.regions[0], values, [None, *carried])
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
        tally = self.tally
        match op.name:
            case "tt.load":
                tally.access(given[0], given[1] if len(given) > 1 else None, op.result.type, store=False)
            case "tt.store":
                mask = given[2] if len(given) > 2 else None
                tally.access(given[0], mask, op.operands[1].type, store=True)
            case "tt.atomic_rmw" | "tt.atomic_cas":
                kind = op.operands[1].type
                mask = given[2] if len(given) > 2 and op.name == "tt.atomic_rmw" else None
                tally.access(given[0], mask, kind, store=True)
                tally.atomics += kind.count if mask is None else int(np.count_nonzero(mask))
            case "tt.dot" | "tt.dot_scaled":
                a, c = op.operands[0].type, op.result.type
                tally.operations[_MATRIX.get(a.element.bytes, Unit.MATRIX_32)] += 2 * c.count * a.shape[-1]
            case "tt.reduce" | "tt.scan":
                kind = op.operands[0].type
                inner = sum(len(block.ops) for region in op.regions for block in region.blocks) - 1
                tally.operations[_unit(kind)] += max(1, inner) * kind.count
            case name if name not in _FREE and op.results and not op.regions:
                kind = op.result.type
                special = name in _SPECIAL and kind.shape != ()
                tally.operations[Unit.SPECIAL if special else _unit(kind)] += kind.count * (2 if name in _TWO else 1)


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

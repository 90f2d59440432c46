"""Loads whose lanes read neighbouring elements, so that a thread could load several of them at once.

How far an address moves from one lane to the next, axis by axis, follows from the operations that made it: ranges move
by one, what is the same for all lanes by nothing, sums by the sum. Invariant: what cannot be told is unknown and no
run. `runs_in` is called in the compiler's process, since TTIR is hostile text.
"""

from __future__ import annotations

from kernelsmith.compiled import Run
from kernelsmith.offline.lint import line_of
from kernelsmith.triton_cpu.read.ir import Dense, Function, Op, Value, walk
from kernelsmith.triton_cpu.read.parse import parse

MOST = 64
_MOST_DEPTH = 256
_SUMS = {"arith.addi": 1, "tt.addptr": 1, "arith.subi": -1}
_SAME = frozenset({"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.broadcast", "tt.bitcast"})

Steps = tuple[int | None, ...]
"""Elements from a lane to the next along each axis; None: not the same everywhere, or not known."""


def runs_in(ttir: str) -> tuple[Run, ...]:
    """Every load of runs, in textual order. Raises TtirError and UnsupportedConstruct."""
    found = [run for function in parse(ttir).functions.values() for run in _Lanes(function).runs()]
    return tuple(found[:MOST])


class _Lanes:
    """One function, with who makes each value."""

    def __init__(self, function: Function) -> None:
        self._ops = list(walk(function.body))
        self._made = {result: op for op in self._ops for result in op.results}
        self._begins = dict(pair for op in self._ops for pair in _carried(op))
        self._known: dict[Value, Steps] = {}

    def runs(self) -> list[Run]:
        found = []
        for op in self._ops:
            if op.name != "tt.load" or not op.result.type.shape:
                continue
            kind = op.result.type
            along = [n for n, step in zip(kind.shape, self._steps(op.operands[0], 0), strict=True) if step == 1]
            if along:
                found.append(
                    Run(line=line_of(op), elements=kind.count, together=max(along), element_bytes=kind.element.bytes)
                )
        return found

    def _steps(self, value: Value, depth: int) -> Steps:
        if value not in self._known:
            rank = len(value.type.shape)
            self._known[value] = (None,) * rank  # of what depends on itself
            if depth < _MOST_DEPTH:
                begin, op = self._begins.get(value), self._made.get(value)
                if (
                    begin is not None
                ):  # of a loop: as it begins, since what is added each time is the same for all lanes
                    self._known[value] = self._steps(begin, depth + 1)
                elif op is not None:
                    self._known[value] = self._of(op, rank, depth + 1)
        return self._known[value]

    def _of(self, op: Op, rank: int, depth: int) -> Steps:
        if not rank or op.name == "tt.splat":
            return (0,) * rank
        if op.name == "tt.make_range":
            return (1,)
        if op.name == "arith.constant":
            return (0 if _splat(op) is not None else None,) * rank
        given = [self._steps(operand, depth) for operand in op.operands]
        if op.name in _SUMS:
            sign = _SUMS[op.name]
            return tuple(None if a is None or b is None else a + sign * b for a, b in zip(*given, strict=True))
        if op.name in _SAME:
            return given[0]
        if op.name == "tt.expand_dims":
            axis = op.integer("axis")
            return (*given[0][:axis], 0, *given[0][axis:])
        if op.name == "tt.trans":
            return tuple(given[0][axis] for axis in op.order)
        if op.name == "arith.muli":
            return self._product(op, given)
        same = [len(steps) == rank for steps in given]
        return tuple(
            0 if all(same) and given and not any(s[axis] != 0 for s in given) else None for axis in range(rank)
        )

    def _product(self, op: Op, given: list[Steps]) -> Steps:
        factors = [None if made is None else _splat(made) for made in map(self._made.get, op.operands)]
        for factor, steps in zip(factors, reversed(given), strict=True):
            if factor is not None:
                return tuple(None if step is None else factor * step for step in steps)
        return tuple(0 if a == b == 0 else None for a, b in zip(*given, strict=True))


def _carried(op: Op) -> list[tuple[Value, Value]]:
    """What a loop's block arguments begin as."""
    if op.name == "scf.for":
        return list(zip(op.regions[0].entry.arguments[1:], op.operands[3:], strict=False))
    if op.name == "scf.while":
        return list(zip(op.regions[0].entry.arguments, op.operands, strict=False))
    return []


def _splat(op: Op) -> int | None:
    value = op.attributes.get("value")
    if op.name != "arith.constant" or not isinstance(value, Dense) or len(value.bits) != 1:
        return None
    return value.bits[0]

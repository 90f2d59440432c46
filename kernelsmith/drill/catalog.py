"""The hostile programs as data: what each tries, what may become of it, its text and that of its honest twin.

A program is a file whose docstring says what it tries and what must hold, with constants below it that say how it may
end. Invariant: programs are read and cut by syntax tree here, and never run in this process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from kernelsmith.sandbox.limits import Ending

PROGRAMS = Path(__file__).parent / "programs"
ENTRY = "square_plus"
"""The function that the module of most cheats must define; see OPERATOR. Some bring an operator of their own."""
OPERATOR = f'''"""Square plus one."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 16)


@operator(x=tensor(N), workloads=[workload(N=20_000)])
def {ENTRY}(x: torch.Tensor) -> torch.Tensor:
    return x * x + 1.0
'''
_CONSTANTS = frozenset({"ENDS", "SECONDS", "MAY_PASS", "TIMED", "OPERATOR"})
_HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * value + 1.0, mask=at < n)


def honest(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""


class Ended(StrEnum):
    """How a program came to its end, as its judge saw it: an answer, a broken protocol, or the child's `Ending`."""

    ANSWERED = "answered"
    GARBLED = "garbled"
    EXITED = Ending.EXITED.value
    SIGNALLED = Ending.SIGNALLED.value
    TIMEOUT = Ending.TIMEOUT.value
    MEMORY = Ending.MEMORY.value
    PROCESSES = Ending.PROCESSES.value
    LOG_FLOOD = Ending.LOG_FLOOD.value
    DISK = Ending.DISK.value
    KILLED = Ending.KILLED.value
    LOST = Ending.LOST.value
    STUCK = Ending.STUCK.value
    DEVICE_MEMORY = Ending.DEVICE_MEMORY.value


@dataclass(frozen=True)
class Act:
    """A program against the machine: `act(stage)`, and `twin(stage)`, which must answer."""

    name: str
    about: str
    source: str
    ends: frozenset[Ended]
    seconds: float
    """Until it is stopped."""


@dataclass(frozen=True)
class Cheat:
    """A candidate against the verdict, and the honest one nearest to it."""

    name: str
    about: str
    source: str
    twin: str
    may_pass: bool
    """Whether it computes the right values by an honest plan after all; then its time must be true."""
    timed: bool
    """Whether it takes a measurement to see that it gains nothing."""
    operator: str = OPERATOR
    """The text of the operator that it claims to compute."""

    @property
    def entry(self) -> str:
        """The function that its module must define."""
        return _entry(self.operator)


def acts() -> Iterator[Act]:
    """Every act, by name."""
    for path in sorted((PROGRAMS / "acts").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        constants = _constants(tree)
        ends = frozenset(Ended(name) for name in constants.get("ENDS", (Ended.ANSWERED,)))
        yield Act(path.stem, _about(tree), source, ends, constants.get("SECONDS", 10.0))


def cheats() -> Iterator[Cheat]:
    """Every cheat, by name."""
    for path in sorted((PROGRAMS / "cheats").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = _constants(tree)
        operator = constants.get("OPERATOR", OPERATOR)
        entry = _entry(operator)
        yield Cheat(
            path.stem,
            _about(tree),
            _candidate(tree, "cheat", entry, without=("twin",)),
            _candidate(tree, "twin", entry, without=("cheat", "before")),
            constants.get("MAY_PASS", False),
            constants.get("TIMED", False),
            operator,
        )


def honest(*, right: bool = True) -> str:
    """An honest candidate, right or wrong."""
    body = f"def {ENTRY}(x):\n    return honest(x)\n"
    return _HEAD.replace("+ 1.0", "+ 1.0" if right else "+ 1.01") + body


def _entry(operator: str) -> str:
    return next(node.name for node in ast.parse(operator).body if isinstance(node, ast.FunctionDef))


def _candidate(tree: ast.Module, part: str, entry: str, *, without: tuple[str, ...]) -> str:
    """The module's text with one of the two as its entry; `before`, where the cheat has it, runs at import."""
    left_out = {*without, *_CONSTANTS}
    kept = [node for node in tree.body[1:] if getattr(node, "name", _assigned(node)) not in left_out]
    text = _HEAD + "\n\n" + ast.unparse(ast.Module(kept, type_ignores=[])) + "\n\n"
    if any(getattr(node, "name", None) == "before" for node in kept):
        text += "before()\n"
    return text + f"{entry} = {part}\n"


def _about(tree: ast.Module) -> str:
    return (ast.get_docstring(tree) or "").splitlines()[0]


def _constants(tree: ast.Module) -> dict[str, Any]:
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and _assigned(node) in _CONSTANTS]
    return {str(_assigned(node)): ast.literal_eval(node.value) for node in assigned}


def _assigned(node: ast.stmt) -> str | None:
    """The name that a simple assignment gives."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None

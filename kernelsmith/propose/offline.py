"""`offline`: a real tuner without a key or a network.

Sources in turn: the library's kernel of the operator's name, kernels lifted from TorchInductor, numeric search around
whatever passed; while nothing has, the library's other kernels whose parameters fit (a check ends the wrong ones fast).
Invariant: the same seed and the same verdicts give the same proposals; no text is proposed twice. Called by the loop.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from kernelsmith import library
from kernelsmith.library import LibraryKernel
from kernelsmith.model import OperatorInfo
from kernelsmith.proposal import Brief, Candidate, Reply, Usage
from kernelsmith.propose import Request
from kernelsmith.propose.numeric import NumericSearch, pruned
from kernelsmith.propose.reply import parse
from kernelsmith.text import fence

CLASS_ENTRY = "ModelNew"
MAX_OTHERS = 6
"""Library kernels of another name that are tried while nothing has passed."""


class OfflineProposer:
    """Remembers what it proposed in this session; `Brief.tried` tells it of earlier ones."""

    spec = "offline"
    priced = True

    def __init__(self, seed: int = 0, prompts: Path | None = None) -> None:
        self._prompts = prompts
        self._search = NumericSearch(seed)
        self._proposed: set[str] = set()
        self._lock = threading.Lock()

    def reserve(self, request: Request) -> Usage:
        return Usage()

    def propose(self, request: Request) -> Reply | None:
        """None while nothing is new; a verdict that arrives later can change that."""
        brief = request.brief
        with self._lock:
            self._proposed.update(brief.tried)
            self._proposed.update(t.candidate.id for t in (*brief.best, *brief.failures))
            for origin, source in self._ideas(brief):
                text = _wrapped(origin, source)
                module = parse(text, brief.operator.name)
                if not isinstance(module, str):
                    continue
                candidate = Candidate(source=module, origin=self.spec)
                if candidate.id not in self._proposed:
                    self._proposed.add(candidate.id)
                    return Reply(text=text, model=self.spec)
        return None

    def _ideas(self, brief: Brief) -> Iterator[tuple[str, str]]:
        """Origin and module of everything worth proposing now, in order."""
        fitting = [k for k in library.ranked(brief.operator, self._prompts) if fits(k, brief.operator)]
        words = [brief.operator.name, *(op.removeprefix("aten.") for op in brief.operator.ops)]
        same = [k for k in fitting if library.similarity(k.name, words) == 1.0]
        limits, useless = brief.target.limits, brief.target.useless_knobs
        for kernel in same:
            yield f"library {kernel.file}", pruned(adapted(kernel, brief.operator), useless)
        for seed in brief.seeds:
            yield seed.origin, pruned(seed.source, useless)
        for trial in reversed(brief.best):
            while (source := self._search.step(trial, limits, useless)) is not None:
                yield f"numbers of trial {trial.number}", source
        if not brief.best and (brief.failures or not self._proposed):  # else a verdict is still awaited
            for kernel in [k for k in fitting if k not in same][:MAX_OTHERS]:
                yield f"library {kernel.file}", pruned(adapted(kernel, brief.operator), useless)


def fits(kernel: LibraryKernel, operator: OperatorInfo) -> bool:
    """The operator's arguments, in order, are what the kernel's host function takes."""
    roles = tuple(argument.kind for argument in operator.arguments)
    if operator.name == CLASS_ENTRY and _has_state(operator.source):
        return False
    if kernel.name != operator.name and operator.name in _names(kernel.source):
        return False  # to be called like the operator it would have to be rewritten, not renamed
    return kernel.required <= len(roles) and kernel.roles[: len(roles)] == roles


def adapted(kernel: LibraryKernel, operator: OperatorInfo) -> str:
    """The kernel's module with the host function under the name the operator wants."""
    if operator.name == CLASS_ENTRY:
        return f"{kernel.source.rstrip()}\n\n\n{_module_class(kernel.name)}"
    if kernel.name == operator.name:
        return kernel.source
    return re.sub(rf"(?<![\w.]){kernel.name}(?!\w)", operator.name, kernel.source)


def _names(source: str) -> set[str]:
    """Every name that a module's code uses or defines."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return names | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _module_class(function: str) -> str:
    return f"""class {CLASS_ENTRY}(torch.nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, *inputs):
        return {function}(*inputs)
"""


def _has_state(source: str) -> bool:
    """The reference's `Model` makes layers or parameters, which no library kernel has."""
    model = next((n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    if model is None:
        return True
    calls = [ast.unparse(node.func) for node in ast.walk(model) if isinstance(node, ast.Call)]
    return any("nn." in name and "functional" not in name for name in calls) or "register_" in " ".join(calls)


def _wrapped(origin: str, source: str) -> str:
    """As a model would reply, so that the text is stored and read like any other."""
    return f"From {origin}.\n\n{fence(source, 'python')}\n"

"""The example kernels under `prompts/kernels/<category>/`: seeds of the offline proposer, few-shot examples in prompts.

Owns what a kernel file must look like: one module, one host function named like the file. Invariant: files are read as
text and syntax trees, never imported. Called by `prompts` and `propose.offline`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from kernelsmith import resources
from kernelsmith.errors import UsageError
from kernelsmith.model import OperatorInfo

Role = Literal["tensor", "list", "scalar"]

_CATEGORIES: dict[str, tuple[str, ...]] = {
    "attention": ("scaled_dot_product", "attention"),
    "conv": ("conv",),
    "matmul": ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "dot", "einsum"),
    "scan": ("cumsum", "cumprod", "cummax", "logcumsumexp"),
    "gather": ("gather", "index", "embedding", "scatter", "take", "select_backward"),
    "rows": (
        "softmax",
        "norm",
        "sum",
        "mean",
        "amax",
        "amin",
        "max",
        "min",
        "var",
        "std",
        "argmax",
        "argmin",
        "logsumexp",
        "topk",
        "sort",
        "nll_loss",
    ),
}
"""Category by words in the names of aten operators, the most demanding first; everything else is elementwise."""
_WHOLE_WORDS = frozenset({"mm", "max", "min", "sum", "mean", "dot", "var", "std", "index", "take", "sort"})
"""Too short to be looked for inside other words."""


@dataclass(frozen=True)
class LibraryKernel:
    """One example kernel."""

    file: str
    """Relative to the prompts folder: `kernels/rows/softmax.py`."""
    category: str
    name: str
    """Of the host function."""
    roles: tuple[Role, ...]
    """Of its parameters, in order."""
    required: int
    """Parameters without a default."""
    source: str


def categories(operator: OperatorInfo) -> tuple[str, ...]:
    """What kinds of work the reference does, the one that decides the kernel's structure first."""
    names = [name.removeprefix("aten.").split(".")[0] for name in operator.ops]
    found = [c for c, words in _CATEGORIES.items() if any(_has(name, word) for name in names for word in words)]
    if "matmul" in found and any("softmax" in name for name in names) and "attention" not in found:
        found.insert(0, "attention")
    return (*found, "elementwise")


def kernels(folder: Path | None = None) -> tuple[LibraryKernel, ...]:
    """Every example kernel, by file name. `folder` is that of the `--prompts` flag."""
    files = resources.matching("prompts", "kernels/*/*.py", folder)
    return tuple(_read(name, resources.read_file(path)) for name, path in files.items())


def ranked(operator: OperatorInfo, folder: Path | None = None) -> tuple[LibraryKernel, ...]:
    """The kernels of the operator's name or categories: of its name first, then by category, then by likeness."""
    order = categories(operator)
    words = [operator.name, PurePosixPath(operator.path).stem, *(op.removeprefix("aten.") for op in operator.ops)]
    found = []
    for kernel in kernels(folder):
        likeness = similarity(kernel.name, words)
        if likeness == 1.0 or kernel.category in order:
            rank = order.index(kernel.category) if kernel.category in order else 0
            found.append((likeness < 1.0, rank, -likeness, kernel.file, kernel))
    return tuple(kernel for *_, kernel in sorted(found, key=lambda item: item[:4]))


def similarity(name: str, words: Iterable[str]) -> float:
    """How like one of the words a name is, 0..1."""
    plain = name.lower().strip("_")
    return max((difflib.SequenceMatcher(None, plain, w.lower().strip("_")).ratio() for w in words), default=0.0)


def _has(name: str, word: str) -> bool:
    return word in name.split("_") or (word not in _WHOLE_WORDS and word in name)


def _read(file: str, source: str) -> LibraryKernel:
    path = PurePosixPath(file)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise UsageError(f"{file}:{error.lineno}: {error.msg}", "an example kernel is a Python module") from error
    host = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == path.stem), None)
    if host is None:
        raise UsageError(f"{file} defines no function {path.stem}", "name the host function like its file")
    parameters = [*host.args.posonlyargs, *host.args.args]
    return LibraryKernel(
        file=file,
        category=path.parent.name,
        name=path.stem,
        roles=tuple(_role(p.annotation) for p in parameters),
        required=len(parameters) - len(host.args.defaults),
        source=source,
    )


def _role(annotation: ast.expr | None) -> Role:
    text = ast.unparse(annotation) if annotation is not None else ""
    if text.startswith(("list", "tuple", "Sequence")):
        return "list"
    return "tensor" if "Tensor" in text else "scalar"

"""What a kernel does, without its numbers: what tells one idea from another in the archive.

Invariant: read from the syntax tree, never run; equal for kernels that differ in names, block sizes, comments and
configurations. A hint for the search and never a part of a verdict. Called by `archive` and by the loop.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections import Counter
from collections.abc import Iterator

from kernelsmith.base import Frozen, digest

_DOTS = frozenset({"dot", "dot_scaled"})
_REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum", "reduce_or"})
_SCANS = frozenset({"associative_scan", "cumsum", "cumprod", "sort", "topk", "flip", "histogram"})
_LOADS = frozenset({"load", "gather"})
_STORES = frozenset({"store", "scatter"})
_DESCRIPTORS = frozenset({"make_tensor_descriptor", "make_block_ptr", "load_tensor_descriptor"})
MOST = 9
"""Counts beyond it are all "many"."""


class Structure(Frozen):
    """One cell of the archive."""

    kernels: int
    """`@triton.jit` functions that are no helpers of another one."""
    loops: int
    """Deepest nesting of loops in a kernel."""
    loads: int
    """Places that read global memory."""
    stores: int
    dots: bool = False
    reductions: bool = False
    scans: bool = False
    atomics: bool = False
    descriptors: bool = False
    """Block pointers or tensor descriptors instead of pointer arithmetic."""
    persistent: bool = False
    """A program works through several tiles: a loop begins at its own number."""

    @property
    def words(self) -> str:
        """For prompts and reports."""
        does = [name for name in ("dots", "reductions", "scans", "atomics", "descriptors") if getattr(self, name)]
        parts = [_plural(self.kernels, "kernel"), "persistent" if self.persistent else ""]
        parts += [f"loops nested {self.loops} deep" if self.loops else "no loop"]
        parts += [_plural(self.loads, "load"), _plural(self.stores, "store"), *does]
        return ", ".join(filter(None, parts))


NOTHING = Structure(kernels=0, loops=0, loads=0, stores=0)


@functools.lru_cache(maxsize=4096)
def program_id(source: str) -> str:
    """Equal for texts that are the same program: other comments and layout, the same syntax tree."""
    tree = _tree(source)
    return digest(source) if tree is None or not tree.body else digest(ast.dump(tree))


@functools.lru_cache(maxsize=4096)
def structure(source: str) -> Structure:
    """Of a module; `NOTHING` of what is no Python."""
    tree = _tree(source)
    if tree is None:
        return NOTHING
    jitted = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_jitted(node)}
    called = {name for node in jitted.values() for name in _calls(node) if name in jitted and name != node.name}
    seen: Counter[str] = Counter(name for node in jitted.values() for name in _calls(node))

    def has(names: frozenset[str]) -> bool:
        return any(seen[name] for name in names)

    return Structure(
        kernels=min(MOST, len(jitted.keys() - called)),
        loops=max((_depth(node) for node in jitted.values()), default=0),
        loads=min(MOST, sum(seen[name] for name in _LOADS)),
        stores=min(MOST, sum(seen[name] for name in _STORES)),
        dots=has(_DOTS),
        reductions=has(_REDUCTIONS),
        scans=has(_SCANS),
        atomics=any(name.startswith("atomic_") for name in seen),
        descriptors=has(_DESCRIPTORS),
        persistent=any(_persists(node) for node in jitted.values()),
    )


def code_lines(source: str) -> int:
    """Lines that hold code: without comments, docstrings and blank lines, however it is laid out."""
    tree = _tree(source)
    return len(ast.unparse(_without_docstrings(tree)).splitlines()) if tree is not None else 0


def _tree(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a docstring is no news to the user
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _is_jitted(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(d).split("(")[0].endswith("jit") for d in node.decorator_list)


def _calls(node: ast.AST) -> Iterator[str]:
    """The last parts of the names that are called: `load` of `tl.load(...)`."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            if isinstance(call.func, ast.Attribute):
                yield call.func.attr
            elif isinstance(call.func, ast.Name):
                yield call.func.id


def _depth(node: ast.AST) -> int:
    own = isinstance(node, ast.For | ast.While)
    return own + max((_depth(child) for child in ast.iter_child_nodes(node)), default=0)


def _persists(node: ast.FunctionDef) -> bool:
    """Whether a loop's first number comes from `tl.program_id`, directly or through one name."""
    own = {
        target.id
        for statement in ast.walk(node)
        if isinstance(statement, ast.Assign) and _asks_program(statement.value)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    ranges = (loop.iter for loop in ast.walk(node) if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call))
    # a loop whose step is no program count walks a tile of its own: range(pid * BLOCK, (pid + 1) * BLOCK)
    return any(len(call.args) == 3 and _starts_at(call.args[0], own) for call in ranges)


def _asks_program(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith("program_id")


def _starts_at(first: ast.expr, own: set[str]) -> bool:
    return _asks_program(first) or (isinstance(first, ast.Name) and first.id in own)


def _plural(count: int, noun: str) -> str:
    return f"{count}{'+' if count == MOST else ''} {noun}{'' if count == 1 else 's'}"

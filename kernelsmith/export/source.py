"""Edits Python text by whole statements: what is left keeps its comments and its formatting.

Invariant: the result parses, and nothing is left behind that only the removed parts used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelsmith.text import code_lines


@dataclass
class Edit:
    """A module's text with statements marked for removal or replacement; `text()` carries them out."""

    source: str
    tree: ast.Module = field(init=False)
    lines: dict[int, str | None] = field(default_factory=dict)
    """Line number to its new text; None removes it."""

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.source)

    def remove(self, node: ast.stmt) -> None:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        self._cut(first, node.end_lineno or node.lineno)

    def replace(self, node: ast.expr | ast.stmt, text: str) -> None:
        """Puts `text` where the lines of `node` are; for statements and decorators, which own their lines."""
        self._cut(node.lineno, node.end_lineno or node.lineno)
        self.lines[node.lineno] = text

    def remove_decorator(self, node: ast.expr) -> None:
        self._cut(node.lineno, node.end_lineno or node.lineno)

    def _cut(self, first: int, last: int) -> None:
        self.lines.update(dict.fromkeys(range(first, last + 1)))

    def text(self) -> str:
        kept = []
        for number, line in enumerate(code_lines(self.source), start=1):
            new = self.lines.get(number, line)
            if new is not None:
                kept.append(new)
        return "\n".join(kept).strip() + "\n"


def loaded_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that is read anywhere in `nodes`."""
    return {
        n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)
    }


def bound_names(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement gives a value."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def keep_reachable(source: str, roots: Iterable[str]) -> str:
    """`source` without top-level definitions, assignments and imports that nothing reachable from `roots` reads."""
    edit = Edit(source)
    body = [s for s in edit.tree.body if not _is_docstring(s)]
    needed = set(roots)
    kept: set[int] = set()
    # a statement that binds nothing (a call, an if) may have any effect: it stays, and so does what it reads
    while grown := [s for s in body if id(s) not in kept and (not bound_names(s) or bound_names(s) & needed)]:
        kept |= {id(s) for s in grown}
        needed |= loaded_names(grown)
    for statement in body:
        if id(statement) not in kept and not _is_future(statement):
            edit.remove(statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom) and not _is_future(statement):
            _keep_aliases(edit, statement, needed)
    return edit.text()


def insert_after_imports(source: str, line: str) -> str:
    """`source` with one more import line behind its last top-level import."""
    imports = [s for s in ast.parse(source).body if isinstance(s, ast.Import | ast.ImportFrom)]
    lines = code_lines(source)
    lines.insert(max((s.end_lineno or s.lineno for s in imports), default=0), line)
    return "\n".join(lines) + "\n"


def _keep_aliases(edit: Edit, statement: ast.Import | ast.ImportFrom, needed: set[str]) -> None:
    used = [a for a in statement.names if (a.asname or a.name).split(".")[0] in needed]
    if len(used) < len(statement.names):
        names = ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in used)
        module = (
            f"from {'.' * statement.level}{statement.module or ''} " if isinstance(statement, ast.ImportFrom) else ""
        )
        edit.replace(statement, f"{module}import {names}")


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"

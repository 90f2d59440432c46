"""The operator's reference as it is shipped: plain PyTorch, without kernelsmith's declarations."""

from __future__ import annotations

import ast

from kernelsmith.errors import KernelsmithError
from kernelsmith.export.source import Edit, bound_names, keep_reachable, loaded_names


def strip(source: str, name: str) -> tuple[str, str | None]:
    """A native operator file without its declarations, and the name of its `check` function if it has one.

    Raises KernelsmithError where the reference itself uses a declaration, for then it cannot stand alone.
    """
    edit = Edit(source)
    declared: set[str] = set()
    check = None
    for statement in edit.tree.body:
        if isinstance(statement, ast.ImportFrom | ast.Import) and _is_ours(statement):
            declared |= bound_names(statement)
            edit.remove(statement)
        elif isinstance(statement, ast.FunctionDef) and statement.name == name:
            for decorator in statement.decorator_list:
                if loaded_names([decorator]) & declared:
                    check = _check(decorator, source)
                    edit.remove_decorator(decorator)
        elif not isinstance(statement, ast.FunctionDef | ast.ClassDef) and loaded_names([statement]) & declared:
            declared |= bound_names(statement)
            edit.remove(statement)
    text = edit.text()
    if check is not None and not check.isidentifier():
        text, check = f"{text}\n\ncheck = {check}\n", "check"
    text = keep_reachable(text, [name, *([check] if check else [])])
    left = loaded_names([ast.parse(text)]) & declared
    if left:
        raise KernelsmithError(
            f"{name}: the reference uses {', '.join(sorted(left))}, a declaration of kernelsmith's",
            "let the reference take its sizes from its arguments (x.shape)",
        )
    return text, check


def _is_ours(statement: ast.ImportFrom | ast.Import) -> bool:
    modules = [statement.module or ""] if isinstance(statement, ast.ImportFrom) else [a.name for a in statement.names]
    return any(m.split(".")[0] == "kernelsmith" for m in modules)


def _check(decorator: ast.expr, source: str) -> str | None:
    """The expression given as `check=`."""
    if isinstance(decorator, ast.Call):
        for keyword in decorator.keywords:
            if keyword.arg == "check":
                return ast.get_source_segment(source, keyword.value)
    return None

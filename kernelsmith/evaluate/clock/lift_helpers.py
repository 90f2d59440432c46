"""The functions of TorchInductor's `triton_helpers` that lifted kernels call, as source text that stands alone.

Read from the installed torch when a kernel is lifted, so that none of it is kept here. Called by lift_source.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable

HELPER_PREFIX = "helper_"


class NotLiftableError(Exception):
    """Inductor made nothing that stands alone as a Triton module."""


class HelperNames(ast.NodeTransformer):
    """`triton_helpers.maximum` becomes `helper_maximum`."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "triton_helpers":
            return ast.Name(HELPER_PREFIX + node.attr, node.ctx)
        return node


class _Inlined(ast.NodeTransformer):
    """Names inside a helper: other helpers get the prefix, Triton's math module its name here."""

    def __init__(self, known: dict[str, ast.FunctionDef]) -> None:
        self.known = known
        self.used: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.known:
            self.used.add(node.id)
            return ast.Name(HELPER_PREFIX + node.id, node.ctx)
        return ast.Name("tl_math", node.ctx) if node.id == "math" else node


def helper_sources(trees: Iterable[ast.FunctionDef]) -> list[str]:
    """Source of the helper functions that these kernels need, those called by others first."""
    from torch._inductor.runtime import triton_helpers

    wanted = [
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "triton_helpers"
    ]
    if not wanted:
        return []
    source = ast.parse(inspect.getsource(triton_helpers))
    known = {n.name: n for n in source.body if isinstance(n, ast.FunctionDef) and _is_jit(n)}
    done: dict[str, str] = {}

    def inline(name: str) -> None:
        if name in done:
            return
        if name not in known:
            raise NotLiftableError(f"the kernels need triton_helpers.{name}, which is no Triton function")
        done[name] = ""
        inliner = _Inlined(known)
        tree = known[name]
        tree.body = [inliner.visit(statement) for statement in tree.body]
        tree.name = HELPER_PREFIX + name
        for other in sorted(inliner.used - {name}):
            inline(other)
        del done[name]
        done[name] = ast.unparse(tree)

    for name in wanted:
        inline(name)
    return list(done.values())


def _is_jit(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(d) == "triton.jit" for d in function.decorator_list)

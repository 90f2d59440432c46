"""What a candidate's names stand for, scope by scope as Python sees them: a library, a part of one, or its own thing.

Invariant: a name that may stand for a library anywhere in its scope does so in all of it, whatever else it is bound to
and in which order; one that only arguments, variables, functions or classes are bound to is the candidate's own, where
that scope reaches and nowhere else. Called by screen.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelsmith.evaluate.check import rules

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Inner = Function | ast.ClassDef | Comprehension
"""Nodes with a scope of their own."""


class Scope:
    """The names of a module, function, class or comprehension, and those around it."""

    def __init__(self, node: ast.Module | Inner, outer: Scope | None = None) -> None:
        self._is_class = isinstance(node, ast.ClassDef)
        self._outer: Scope | None = outer if outer is None or not outer._is_class else outer._outer
        """A class's names are not seen from the functions in it."""
        self.own: dict[str, ast.AST] = {}
        """Names that are bound here, but for imports, and where."""
        self._paths: dict[str, str] = {}
        nodes = [*_arguments(node), *_within(inside(node))]
        self._elsewhere = {name for one in nodes if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
        for one in nodes:
            if (name := _bound(one)) is not None and name not in self._elsewhere:
                self.own.setdefault(name, one)
        for _ in range(2):  # what is named twice over may be named in any order
            for one in nodes:
                self._learn(one)
        self.inner = {one: Scope(one, self) for one in nodes if isinstance(one, Inner)}

    def path(self, name: str) -> str | None:
        """Full name of the library, or part of one, that a name stands for; None where it is none."""
        if name in self._paths:
            return self._paths[name]
        return None if name in self.own or self._outer is None else self._outer.path(name)

    def defines(self, name: str) -> bool:
        """Whether it is the candidate's own here."""
        return name in self.own or (self._outer is not None and self._outer.defines(name))

    def resolved(self, node: ast.expr) -> str | None:
        """As `path`, of what an expression stands for."""
        if isinstance(node, ast.NamedExpr):
            return self.resolved(node.value)
        if isinstance(node, ast.Attribute):
            root = self.resolved(node.value)
            return None if root is None else f"{root}.{node.attr}"
        return self.path(node.id) if isinstance(node, ast.Name) else None

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                self._stands(name, alias.name if alias.asname else name)
        elif isinstance(node, ast.ImportFrom) and _importable(node):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if rules.forbidden_advice(full) is None:  # else it is refused where it is imported
                    self._stands(alias.asname or alias.name, full)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._alias(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._alias(node.target, node.value)

    def _alias(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for one, of in zip(target.elts, value.elts, strict=False):
                self._alias(one, of)
        elif isinstance(target, ast.Name) and (path := self.resolved(value)) is not None:
            self._stands(target.id, path)

    def _stands(self, name: str, path: str) -> None:
        """Also in the scopes around this one, where it is declared `global` or `nonlocal` here."""
        self._paths[name] = path
        if name in self._elsewhere and self._outer is not None:
            self._outer._elsewhere.add(name)
            self._outer._stands(name, path)


def outside(node: Inner) -> Iterator[ast.AST]:
    """Parts of it that belong to the scope around it: decorators, defaults, bases, the first sequence."""
    if isinstance(node, Comprehension):
        yield node.generators[0].iter
        return
    yield from getattr(node, "type_params", ())  # since Python 3.12
    if isinstance(node, ast.ClassDef):
        yield from (*node.decorator_list, *node.bases, *node.keywords)
        return
    if not isinstance(node, ast.Lambda):
        yield from node.decorator_list
        yield from filter(None, [node.returns])
    given = [*node.args.defaults, *node.args.kw_defaults, *(one.annotation for one in _arguments(node))]
    yield from filter(None, given)


def inside(node: ast.Module | Inner) -> Iterator[ast.AST]:
    """The other parts, in the order of the text."""
    if isinstance(node, ast.Lambda):
        yield node.body
    elif isinstance(node, Comprehension):
        for generator in node.generators:
            yield generator.target
            yield from ([] if generator is node.generators[0] else [generator.iter])
            yield from generator.ifs
        yield from [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    else:
        yield from node.body


def _within(nodes: Iterator[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of a scope; of inner ones only what belongs here."""
    for node in nodes:
        yield node
        if not isinstance(node, Inner):
            yield from _within(ast.iter_child_nodes(node))
            continue
        yield from _within(outside(node))
        if isinstance(node, Comprehension):  # a walrus in one binds a name around it
            yield from (one for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
            yield from (one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr))


def _arguments(node: ast.AST) -> Iterator[ast.arg]:
    if isinstance(node, Function):
        arguments = node.args
        yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        yield from filter(None, [arguments.vararg, arguments.kwarg])


def _importable(node: ast.ImportFrom) -> bool:
    return not node.level and (node.module or "").split(".")[0] in rules.ALLOWED_IMPORTS


def _bound(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
        return node.name
    return node.name if isinstance(node, ast.MatchAs | ast.MatchStar) else None

"""Refuse, before anything runs, what a candidate may never do; by syntax tree, with a reason a model can act on.

Never the last line of defence: the sandbox contains what slips through and the launch plan makes it worthless. So a
rule stands here only if honest kernels never need what it refuses; `try`, `pass` and the like are nobody's business.
What the rules are about is in rules.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container

from kernelsmith.evaluate.check import rules
from kernelsmith.evaluate.check.names import Inner, Scope, inside, outside
from kernelsmith.evaluate.check.rules import ALLOWED_IMPORTS
from kernelsmith.model import Evaluation
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.text import INVISIBLE, clean

MAX_SOURCE_CHARS = 400_000
MOST_OBJECTIONS = 3
"""More are not told at once: a model mends a few at a time."""
_FORMATS = ("format", "format_map")
_PEEKING_FORMAT = re.compile(r"\{[^{}]*[.\[]_")


def screen(source: str, *, entry: str) -> Evaluation | None:
    """None: nothing to object to. `entry` is the function (or class) that the module must define."""
    if len(source) > MAX_SOURCE_CHARS:
        return _refuse(f"the module is {len(source):,} characters long; at most {MAX_SOURCE_CHARS:,} are accepted")
    if "\0" in source:
        return _refuse("the module holds a NUL character")
    if hidden := INVISIBLE.search(source):
        number = source.count("\n", 0, hidden.start()) + 1
        return _refuse(f"line {number}: the invisible character {clean(hidden[0])}: write what can be seen")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        at = f" at line {line}" if line else ""
        text = getattr(error, "text", None)
        shown = f": {text.strip()}" if text else ""
        reason = getattr(error, "msg", None) or type(error).__name__
        return _failed(Outcome.COMPILE_ERROR, f"Python syntax error{at}: {reason}{shown}")
    reason = _missing(tree, entry)
    if reason is None:
        try:
            reason = "; ".join(_Rules(tree).objections())
        except RecursionError:
            return _refuse("the module is nested too deeply")
    return _refuse(reason) if reason else None


def _missing(tree: ast.Module, entry: str) -> str | None:
    defined = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    }
    for node in tree.body:
        if isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    if entry not in defined:
        kind = "class" if entry == "ModelNew" else "function"
        return f"the module must define a {kind} named {entry}; it defines {', '.join(sorted(defined)) or 'nothing'}"
    names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    if "jit" in names:
        return None
    return "the module holds no @triton.jit kernel; the work must be done in Triton kernels"


class _Rules(ast.NodeVisitor):
    """Collects objections."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._found: dict[str, None] = {}
        self._scope = Scope(tree)

    def objections(self) -> list[str]:
        """The first few, in the order of the module."""
        self.visit(self._tree)
        return list(self._found)[:MOST_OBJECTIONS]

    def object(self, node: ast.AST, reason: str, advice: str) -> None:
        self._found[f"line {getattr(node, 'lineno', 0)}: {reason}: {advice}"] = None

    # ------------------------------------------------------------ modules

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.module(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level:
            self.object(node, "relative import", "the module stands alone")
            return
        for alias in node.names:
            full = f"{module}.{alias.name}"
            if alias.name == "*":
                self.object(node, f"import of everything in {module!r}", "import names one by one")
            elif not self.module(node, module) or self.path(node, full, f"import of {full!r} is not allowed"):
                continue
            elif alias.name in rules.FORBIDDEN_ATTRIBUTES or alias.name in rules.FOREIGN_MODULES:
                advice = rules.FORBIDDEN_ATTRIBUTES.get(alias.name, rules.NO_FILES)
                self.object(node, f"import of {alias.name!r} is not allowed", advice)
            elif (names := rules.exported(module)) is not None and alias.name not in names and module != "__future__":
                self.object(node, f"import of {full!r} is not allowed", f"use what {module} exports")

    def module(self, node: ast.AST, name: str) -> bool:
        """Whether this module may be imported."""
        if name.split(".")[0] not in ALLOWED_IMPORTS:
            allowed = ", ".join(sorted(ALLOWED_IMPORTS - {"__future__"}))
            self.object(node, f"import of {name!r}", f"allowed are {allowed}")
            return False
        return not self.path(node, name, f"import of {name!r} is not allowed")

    def path(self, node: ast.AST, path: str, reason: str) -> bool:
        """Objects if this is a forbidden path, or lies below one."""
        advice = rules.forbidden_advice(path)
        if advice is not None:
            self.object(node, reason, advice)
        return advice is not None

    # ------------------------------------------------------------ names and attributes

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and self.forbidden(node.id, rules.FORBIDDEN_BUILTINS):
            shown = node.id if node.id.endswith("__") and node.id != "__import__" else f"{node.id}()"
            self.object(node, f"use of {shown} is not allowed", rules.FORBIDDEN_BUILTINS[node.id])

    def forbidden(self, name: str, table: Container[str]) -> bool:
        """Whether it is in the table, and means what it means everywhere."""
        return name in table and not self._scope.defines(name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        before = len(self._found)
        self.attribute(node, node.value, node.attr)
        if not isinstance(node.ctx, ast.Load):
            self.assigned(node)
        if len(self._found) == before:  # what a refused name hangs on would be said again
            self.generic_visit(node)

    def attribute(self, node: ast.AST, of: ast.expr, name: str) -> None:
        """`of.name`, however it is spelled."""
        root, shown = self._scope.resolved(of), _dotted(of) or "..."
        if name in rules.FORBIDDEN_ATTRIBUTES:
            self.object(node, f"use of .{name} is not allowed", rules.FORBIDDEN_ATTRIBUTES[name])
        elif root is not None and (name in rules.FOREIGN_MODULES or name == "__dict__"):
            self.object(node, f"use of {shown}.{name} is not allowed", rules.NO_FILES)
        elif root is not None:
            public = rules.exported(root)
            if public is not None and name not in public:
                self.object(node, f"use of {shown}.{name} is not allowed", f"use what {root} exports")
            else:
                self.path(node, f"{root}.{name}", f"use of {shown}.{name} is not allowed")

    def assigned(self, node: ast.Attribute) -> None:
        root = self._scope.resolved(node.value)
        if root is not None:
            shown = f"{_dotted(node.value) or root}.{node.attr}"
            advice = "a candidate may not change the libraries it runs on"
            self.object(node, f"assignment to {shown}", advice)
        elif node.attr == "__class__":
            self.object(node, "assignment to __class__", rules.PLAIN_TENSORS)
        elif node.attr in rules.FORBIDDEN_METHODS:
            self.object(node, f"assignment to {node.attr}", rules.FORBIDDEN_METHODS[node.attr])

    # ------------------------------------------------------------ calls

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            if self.forbidden(function.id, rules.FORBIDDEN_CALLS):
                reason = f"call of {function.id}() is not allowed"
                self.object(node, reason, rules.FORBIDDEN_CALLS[function.id])
            if function.id in ("getattr", "hasattr") and len(node.args) > 1:
                name = _text(node.args[1])
                if name is not None:
                    self.attribute(node, node.args[0], name)
                elif function.id == "getattr" and self._scope.resolved(node.args[0]) is None:
                    self.object(node, "getattr of a name that is computed", rules.NUMBERED)
        called = self._scope.resolved(function)
        if called in ("operator.attrgetter", "operator.methodcaller"):
            for argument in node.args[: 1 if called == "operator.methodcaller" else None]:
                for name in (_text(argument) or "").split("."):
                    self.attribute(node, argument, name)
        formatted = function.value if isinstance(function, ast.Attribute) and function.attr in _FORMATS else None
        if formatted is not None and _PEEKING_FORMAT.search(_text(formatted) or ""):
            self.object(node, "a format that looks into its arguments", "format the values themselves")
        self.generic_visit(node)

    # ------------------------------------------------------------ scopes

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, Inner):
            super().generic_visit(node)
            return
        for one in outside(node):
            self.visit(one)
        around, self._scope = self._scope, self._scope.inner[node]
        for one in inside(node):
            self.visit(one)
        self._scope = around

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        own = self._scope.inner[node].own
        for name in sorted(own.keys() & rules.FORBIDDEN_METHODS.keys()):
            self.object(own[name], f"definition of {name}", rules.FORBIDDEN_METHODS[name])
        self.generic_visit(node)


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` as it is written."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _text(node: ast.expr) -> str | None:
    """The value of a text that is written out, whole or in pieces; None where it is computed."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    elif isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
    texts = [_text(part) for part in parts]
    return "".join(text for text in texts if text is not None) if parts and None not in texts else None


def _refuse(reason: str) -> Evaluation:
    return _failed(Outcome.REJECTED, reason)


def _failed(outcome: Outcome, reason: str) -> Evaluation:
    return Evaluation(outcome=outcome, stage=Stage.SCREEN, message=reason)

"""Refuse, before anything runs, what a candidate may never do; by syntax tree, with a reason a model can act on.

Never the last line of defence: the sandbox contains what slips through and the launch plan makes it worthless. So a
rule stands here only if honest kernels never need what it refuses; `try`, `pass` and the like are nobody's business.
"""

from __future__ import annotations

import ast

from kernelsmith.model import Evaluation, Outcome, Stage

ALLOWED_IMPORTS = frozenset(
    {
        "__future__",
        "abc",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "enum",
        "functools",
        "itertools",
        "logging",
        "math",
        "numbers",
        "operator",
        "torch",
        "triton",
        "typing",
        "typing_extensions",
        "warnings",
    }
)
"""Top-level modules: torch, triton and the part of the standard library that reaches neither files nor processes."""

FORBIDDEN_MODULES = (
    "torch.utils.cpp_extension",
    "torch.multiprocessing",
    "torch.distributed",
    "torch.hub",
    "torch._inductor",
    "torch.package",
    "triton.runtime.driver",
    "triton.backends",
    "triton.compiler",
)
FORBIDDEN_CALLS = frozenset(
    {"exec", "eval", "compile", "__import__", "open", "input", "breakpoint", "globals", "vars", "setattr", "delattr"}
)
FORBIDDEN_ATTRIBUTES = frozenset(
    {
        "__globals__",
        "__code__",
        "__subclasses__",
        "__builtins__",
        "__closure__",
        "f_globals",
        "f_locals",
        "f_back",
        "gi_frame",
        "_getframe",
        "load_library",
        "load_inline",
        "inline_asm_elementwise",
        "from_file",
        "_C",
    }
)
FOREIGN_MODULES = frozenset({"sys", "os", "subprocess", "ctypes", "builtins", "importlib", "inspect", "_C"})
"""What torch and triton have imported for themselves and so offer as attributes; no candidate needs it of them."""
LIBRARIES = frozenset({"torch", "triton"})
MAX_SOURCE_CHARS = 400_000


def screen(source: str, *, entry: str) -> Evaluation | None:
    """None: nothing to object to. `entry` is the function (or class) that the module must define."""
    if len(source) > MAX_SOURCE_CHARS:
        return _refuse(f"the module is {len(source):,} characters long; at most {MAX_SOURCE_CHARS:,} are accepted")
    if "\0" in source:
        return _refuse("the module holds a NUL character")
    try:
        tree = ast.parse(source)
    except (SyntaxError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        at = f" at line {line}" if line else ""
        text = getattr(error, "text", None)
        shown = f": {text.strip()}" if text else ""
        reason = getattr(error, "msg", None) or type(error).__name__
        return _failed(Outcome.COMPILE_ERROR, f"Python syntax error{at}: {reason}{shown}")
    reason = _missing(tree, entry)
    if reason is None:
        visitor = _Rules()
        try:
            visitor.visit(tree)
        except RecursionError:
            return _refuse("the module is nested too deeply")
        reason = visitor.reason
    return None if reason is None else _refuse(reason)


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
    """Keeps the first objection."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.libraries = set(LIBRARIES)
        """Names that torch, triton or a part of them is bound to."""

    def object(self, node: ast.AST, reason: str) -> None:
        if self.reason is None:
            self.reason = f"line {getattr(node, 'lineno', 0)}: {reason}"

    def module(self, node: ast.AST, name: str) -> None:
        if name.split(".")[0] not in ALLOWED_IMPORTS:
            self.object(node, f"import of {name!r}; allowed are {', '.join(sorted(ALLOWED_IMPORTS - {'__future__'}))}")
        for forbidden in FORBIDDEN_MODULES:
            if name == forbidden or name.startswith(forbidden + "."):
                self.object(node, f"import of {name!r} is not allowed")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.module(node, alias.name)
            if alias.name.split(".")[0] in LIBRARIES:
                self.libraries.add(alias.asname or alias.name.split(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self.object(node, "relative import; the module stands alone")
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            self.module(node, full if full in FORBIDDEN_MODULES else node.module or "")
            of_library = (node.module or "").split(".")[0] in LIBRARIES
            if alias.name in FORBIDDEN_ATTRIBUTES or (of_library and alias.name in FOREIGN_MODULES):
                self.object(node, f"import of {alias.name!r} is not allowed")
            if of_library:
                self.libraries.add(alias.asname or alias.name)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            self.object(node, f"call of {node.func.id}() is not allowed")
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            of, name = node.args[:2]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.attribute(node, of, name.value)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attribute(node, node.value, node.attr)
        dotted = _dotted(node)
        if dotted in FORBIDDEN_MODULES:
            self.object(node, f"use of {dotted} is not allowed")
        self.generic_visit(node)

    def attribute(self, node: ast.AST, of: ast.expr, name: str) -> None:
        if name in FORBIDDEN_ATTRIBUTES:
            self.object(node, f"use of .{name} is not allowed")
        root = _dotted(of)
        if name in FOREIGN_MODULES and root is not None and root.split(".")[0] in self.libraries:
            self.object(node, f"use of {root}.{name} is not allowed")

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.assigned(target)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.assigned(node.target)
        self.generic_visit(node)

    def assigned(self, target: ast.expr) -> None:
        root = _dotted(target)
        if isinstance(target, ast.Attribute) and root and root.split(".")[0] in {"torch", "triton", "tl", "math"}:
            self.object(target, f"assignment to {root}: a candidate may not change the libraries it runs on")


def _dotted(node: ast.expr) -> str | None:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _refuse(reason: str) -> Evaluation:
    return _failed(Outcome.REJECTED, reason)


def _failed(outcome: Outcome, reason: str) -> Evaluation:
    return Evaluation(outcome=outcome, stage=Stage.SCREEN, message=reason)

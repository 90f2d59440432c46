"""The winning candidate as it is shipped: its search replaced by the configurations that won."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernelsmith.export.source import Edit, bound_names, insert_after_imports, keep_reachable
from kernelsmith.model import WorkloadChoice

_LITERAL = (
    *(ast.Dict, ast.List, ast.Tuple, ast.Constant, ast.UnaryOp, ast.USub),
    *(ast.keyword, ast.Attribute, ast.Name, ast.Load),
)
_LIBRARIES = frozenset({"torch", "triton"})


def bake(source: str, choices: Sequence[WorkloadChoice], entry: str) -> str:
    """`source` with every `@triton.autotune` replaced by `@baked(...)`, one configuration per workload.

    A kernel that no workload launched, or that was never measured, keeps the first of its own configurations. `entry`
    names the function or class that callers use; what only the search needed is removed.
    """
    edit = Edit(source)
    found = False
    for node in ast.walk(edit.tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and _last_name(decorator.func) == "autotune":
                    edit.replace(decorator, _baked(decorator, node.name, choices, source))
                    found = True
    if not found:
        return keep_reachable(source, [entry])
    imported = set().union(*map(bound_names, edit.tree.body))
    lines = ("" if "triton" in imported else "import triton\n") + "\nfrom ._baked import baked"
    return keep_reachable(insert_after_imports(edit.text(), lines), [entry])


def _baked(decorator: ast.Call, kernel: str, choices: Sequence[WorkloadChoice], source: str) -> str:
    configs = next((k.value for k in decorator.keywords if k.arg == "configs"), decorator.args[0:1] or None)
    expression = configs[0] if isinstance(configs, list) else configs
    own = ast.get_source_segment(source, expression) if expression is not None else None
    hooked = own is not None and "pre_hook" in own
    texts: list[tuple[str, str]] = []
    for choice in choices:
        for config in choice.configs:
            if config.kernel == kernel:
                written = None if hooked else _written(config.text)
                # a hook cannot be written down: take the configuration out of the candidate's own list
                texts.append((choice.workload.label, written or f"({own})[{config.index}]"))
    by_label = dict(texts)
    if not by_label:
        return f"@baked(({own})[0])"
    if len(set(by_label.values())) == 1:
        return f"@baked({texts[0][1]})"
    every = [(c.workload.label, by_label.get(c.workload.label, texts[0][1])) for c in choices]
    return "@baked(\n" + "".join(f"    {text},  # {label}\n" for label, text in every) + ")"


def _written(text: str) -> str | None:
    """A configuration as code; None unless it is literals and names of types alone, for a candidate's process wrote it
    and nobody has screened it."""
    try:
        call = ast.parse(f"Config({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call) or len(call.args) != 1 or not isinstance(call.args[0], ast.Dict):
        return None
    parts = [node for argument in (*call.args, *call.keywords) for node in ast.walk(argument)]
    plain = all(isinstance(node, _LITERAL) for node in parts)
    names = {node.id for node in parts if isinstance(node, ast.Name)}
    return f"triton.{ast.unparse(call)}" if plain and names <= _LIBRARIES else None


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")

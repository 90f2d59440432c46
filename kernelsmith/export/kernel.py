"""The winning candidate as it is shipped: its search replaced by the configurations that won."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernelsmith.export.source import Edit, bound_names, insert_after_imports, keep_reachable
from kernelsmith.model import WorkloadChoice


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
                # a hook cannot be written down as a literal: take the config out of the candidate's own list
                text = f"({own})[{config.index}]" if hooked else f"triton.Config({config.text})"
                texts.append((choice.workload.label, text))
    by_label = dict(texts)
    if not by_label:
        return f"@baked(({own})[0])"
    if len(set(by_label.values())) == 1:
        return f"@baked({texts[0][1]})"
    every = [(c.workload.label, by_label.get(c.workload.label, texts[0][1])) for c in choices]
    return "@baked(\n" + "".join(f"    {text},  # {label}\n" for label, text in every) + ")"


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")

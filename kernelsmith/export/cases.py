"""What the exported package tests itself with: points of the proven region and code that draws inputs for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelsmith.base import Scalar
from kernelsmith.model import ArgumentInfo, OperatorInfo
from kernelsmith.plan import ITEM_SIZES
from kernelsmith.space import Region, RegionStatus

MAX_CASES = 12
MAX_BYTES = 64 << 20
"""Largest inputs of one case, so that the tests run anywhere in seconds."""
_MODEST = 37
"""A size that no block divides."""


@dataclass(frozen=True)
class Case:
    """One call that lies in the proven region."""

    dims: dict[str, int]
    dtypes: dict[str, str]
    scalars: dict[str, Scalar | None]


def cases(operator: OperatorInfo, proven: Iterable[Region]) -> list[Case]:
    """Tuned workloads and odd points inside proven boxes, as far as they are small enough."""
    boxes = [r for r in proven if r.status is not RegionStatus.REFUTED]
    scalars = operator.workloads[0].scalars if operator.workloads else {}
    found = [
        Case(workload.dims, workload.dtypes, workload.scalars)
        for workload in operator.workloads
        if any(_inside(box, workload.dims, workload.dtypes) for box in boxes)
    ]
    for box in boxes:
        if all(layout == "contiguous" for layout in box.layouts.values()) and not operator.relations:
            dims = {n: min(max(low, _MODEST + i), high) for i, (n, (low, high)) in enumerate(box.dims.items())}
            found.append(Case(dims, box.dtypes, {**scalars, **box.scalars}))
    unique = [c for i, c in enumerate(found) if c not in found[:i] and _bytes(operator, c) <= MAX_BYTES]
    return unique[:MAX_CASES]


def _inside(box: Region, dims: Mapping[str, int], dtypes: Mapping[str, str]) -> bool:
    fits = all(low <= dims.get(name, low) <= high for name, (low, high) in box.dims.items())
    return fits and all(dtypes.get(name, dtype) == dtype for name, dtype in box.dtypes.items())


def _bytes(operator: OperatorInfo, case: Case) -> int:
    total = 0
    for info in operator.arguments:
        if info.kind != "scalar" and case.scalars.get(info.name, 0) is not None:
            size = ITEM_SIZES.get(case.dtypes.get(info.name, "float32"), 8)
            for axis in _axes(info):
                size *= _value(ast.parse(axis, mode="eval").body, case.dims)
            total += size
    return total


def _value(node: ast.expr, dims: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return dims[node.id]
    assert isinstance(node, ast.BinOp), ast.dump(node)
    left, right = _value(node.left, dims), _value(node.right, dims)
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right
        case _:
            return left % right


def _axes(info: ArgumentInfo) -> list[str]:
    text, _, count = info.shape.partition(" x ")
    parsed = ast.parse(text or "()", mode="eval").body
    axes = [ast.unparse(e) for e in parsed.elts] if isinstance(parsed, ast.Tuple) else [ast.unparse(parsed)]
    return [*axes, *([count] if count else [])]


def draw_code(info: ArgumentInfo) -> str:
    """An expression that draws one argument, from the dims, `dtypes` and `scalars` of a case."""
    if info.kind == "scalar":
        return f'scalars["{info.name}"]'
    text, _, count = info.shape.partition(" x ")
    shape = ast.unparse(ast.parse(text or "()", mode="eval"))
    words, low, high = _values(info.values)
    call = f'draw({shape}, dtypes["{info.name}"], low={low}, high={high}, words={sorted(words)!r})'
    if count:
        call = f"[{call} for _ in range({count})]"
    return f'None if scalars.get("{info.name}", 0) is None else {call}' if info.optional else call


def _values(text: str) -> tuple[set[str], str, str]:
    """Words and bounds out of `positive, from 0 to V`."""
    words, low, high = set(), "None", "None"
    for part in filter(None, text.split(", ")):
        if part.startswith("from "):
            low, _, high = part.removeprefix("from ").partition(" to ")
        elif part.startswith("up to "):
            high = part.removeprefix("up to ")
        else:
            words.add(part)
    return words, low, high

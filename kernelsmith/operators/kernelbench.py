"""KernelBench problem files as they are: `Model`, `get_inputs`, `get_init_inputs`.

Such a file has no dims: its region is exactly its own shapes, and other contents are further draws of its own
`get_inputs`. The model, and the candidate's `ModelNew`, are constructed under one seed, as KernelBench does
(its eval.py: set_seed, get_init_inputs, set_seed, Model). Called by `load` in the judge.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch

from kernelsmith.base import Scalar, digest
from kernelsmith.errors import USER_ERRORS, OperatorError
from kernelsmith.model import ArgumentInfo, OperatorInfo, Workload
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.operators.native import RETURN_IT, execute, placed
from kernelsmith.operators.seeded import seeded
from kernelsmith.operators.trace import Trace, traced
from kernelsmith.text import code_lines

ENTRY = "ModelNew"
NEEDED = ("Model", "get_inputs", "get_init_inputs")
TRACE_SEED = 0
Value = Scalar | tuple[int, ...]
"""What a module constant can be set to."""


@dataclass(frozen=True)
class Footprint:
    """How large a problem is."""

    nbytes: int
    """Of one draw of inputs, of the answer or of the model's state, whichever is most."""
    runs: bool
    """A forward pass over shapes alone went through."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One problem file, executed, and its model under one seed."""

    module: ModuleType
    path: Path
    model_seed: int

    def init_inputs(self) -> list[Any]:
        """Constructor arguments of `Model` and `ModelNew`; fresh objects each time."""
        with seeded(self.model_seed):
            return self._guarded("get_init_inputs() raised ", self.module.get_init_inputs)

    def inputs(self, seed: int) -> list[Any]:
        """What `get_inputs` draws under this seed of torch's generator."""
        with seeded(seed):
            return self._guarded("get_inputs() raised ", self.module.get_inputs)

    def _guarded(self, doing: str, function: Any) -> list[Any]:
        try:
            return list(function())
        except USER_ERRORS as error:
            raise placed(error, self.path, doing) from error

    @cached_property
    def model(self) -> torch.nn.Module:
        """`Model(*get_init_inputs())` under `model_seed`, in training mode as KernelBench leaves it."""
        arguments = self.init_inputs()
        with seeded(self.model_seed):
            try:
                made = self.module.Model(*arguments)
            except USER_ERRORS as error:
                raise placed(error, self.path, "Model(*get_init_inputs()) raised ") from error
        if not isinstance(made, torch.nn.Module):
            raise OperatorError("Model is not a torch.nn.Module", file=str(self.path))
        return made

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of forward's arguments."""
        return tuple(inspect.signature(self.model.forward).parameters)

    @cached_property
    def has_floats(self) -> bool:
        """Whether any input is a floating tensor, so that contents can be varied."""
        tensors = [t for a in self._sketch() for t in (a if isinstance(a, list | tuple) else (a,))]
        return any(isinstance(t, torch.Tensor) and t.is_floating_point() for t in tensors)

    @cached_property
    def _state(self) -> dict[str, torch.Tensor]:
        return {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}

    @cached_property
    def _meta_state(self) -> dict[str, torch.Tensor]:
        return {n: t.detach().to("meta") for n, t in self._state.items()}

    @cached_property
    def _double_state(self) -> dict[str, torch.Tensor]:
        return {n: t.double() if t.is_floating_point() else t for n, t in self._state.items()}

    def call(self, *args: Any) -> Any:
        """The model's answer; buffers such as running statistics are copies, so that every call is a first call."""
        return self._functional(self._state, args)

    def move(self, device: str) -> None:
        """From now on the model is on this device; it was made on the CPU, as the truth's is."""
        self.model.to(device)
        for name in ("_state", "_double_state", "_meta_state"):
            self.__dict__.pop(name, None)

    def in_double(self, *args: Any) -> Any:
        """The model's answer with parameters and buffers in float64."""
        return self._functional(self._double_state, args)

    def _functional(self, state: Mapping[str, torch.Tensor], args: tuple[Any, ...]) -> Any:
        buffers = {n for n, _ in self.model.named_buffers()}
        own = {n: t.clone() if n in buffers else t for n, t in state.items()}
        with torch.no_grad():
            return torch.func.functional_call(self.model, own, args)

    def _sketch(self) -> list[Any]:
        """Inputs on the meta device: shapes without memory; real ones where `get_inputs` does not allow it."""
        try:
            with torch.device("meta"):
                return list(self.module.get_inputs())
        except USER_ERRORS:  # not every file can: draw real inputs then, with real errors
            return self.inputs(TRACE_SEED)

    def footprint(self) -> Footprint:
        """What it takes, found without memory where the model can be made so."""
        inputs, state, answer, runs = self._sketch(), list[torch.Tensor](), None, False
        try:
            model = self._outline()
            shapes = {n: t.detach().to("meta") for n, t in (*model.named_parameters(), *model.named_buffers())}
            state += shapes.values()
            with torch.no_grad():
                answer, runs = torch.func.functional_call(model, shapes, tuple(inputs)), True
        except USER_ERRORS:  # not every model runs without memory
            pass
        return Footprint(max(map(_nbytes, (inputs, state, answer))), runs)

    def _outline(self) -> torch.nn.Module:
        """The model on the meta device, so that large weights are not made only to be counted."""
        try:
            with torch.device("meta"):
                made = self.module.Model(*self.module.get_init_inputs())
        except USER_ERRORS:  # not every file can
            return self.model
        return made if isinstance(made, torch.nn.Module) else self.model

    def _on_meta(self, *args: Any) -> Any:
        """The answer's shapes without memory."""
        with torch.no_grad():
            return torch.func.functional_call(self.model, self._meta_state, args)

    def trace(self) -> Trace:
        """The aten operators of one forward pass."""
        _ = self._meta_state  # made here: making it is no part of the pass
        try:
            return traced((self._on_meta, self._sketch), (self.call, lambda: self.inputs(TRACE_SEED)))
        except USER_ERRORS as error:
            raise placed(error, self.path, "the reference raised ") from error

    def arguments(self) -> tuple[ArgumentInfo, ...]:
        """forward's arguments in words."""
        return tuple(_describe(name, value) for name, value in zip(self.parameters, self._sketch(), strict=False))


def _nbytes(values: Any) -> int:
    """Of all tensors in a tensor, list or tuple of them."""
    if isinstance(values, list | tuple):
        return sum(map(_nbytes, values))
    return values.numel() * values.element_size() if isinstance(values, torch.Tensor) else 0


def is_problem(tree: ast.Module) -> bool:
    """Whether a parsed file is a KernelBench problem."""
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {"Model", "get_inputs"} <= defined


def read(
    path: Path, text: str, *, overrides: Mapping[str, Scalar], max_bytes: int | None, model_seed: int
) -> LoadedOperator:
    """The problem in `path`, with module constants replaced and, if asked, shrunk until one draw of inputs fits."""
    tree = ast.parse(text)
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    if missing := [n for n in NEEDED if n not in defined]:
        raise OperatorError(
            f"a KernelBench problem without {missing[0]}", "it needs " + ", ".join(NEEDED), file=str(path)
        )
    constants = _constants(tree)
    if unknown := [n for n in overrides if n not in constants]:
        known = ", ".join(constants) or "none"
        raise OperatorError(f"--set {unknown[0]}: no such module constant", f"constants: {known}", file=str(path))
    changed: dict[str, Value] = dict(overrides)
    problem = _problem(path, text, changed, model_seed)
    notes: tuple[str, ...] = ()
    if max_bytes is not None:
        problem, notes = _shrunk(path, text, changed, model_seed, max_bytes)
    source = _replaced(text, changed)
    trace = problem.trace()
    if not trace.returns:
        raise OperatorError("Model.forward returns nothing", RETURN_IT, file=str(path))
    info = OperatorInfo(
        name=ENTRY,
        kind="kernelbench",
        path=str(path),
        digest=digest(source),
        source=source,
        doc=inspect.cleandoc(problem.module.__doc__ or problem.module.Model.__doc__ or ""),
        signature=f"def forward{inspect.signature(problem.module.Model.forward)}",
        arguments=problem.arguments(),
        workloads=(Workload(),),
        ops=trace.names,
        notes=notes,
    )
    return LoadedOperator(info=info, function=problem.call, arguments={}, problem=problem, calls=trace.calls)


def _problem(path: Path, text: str, changed: Mapping[str, Value], seed: int) -> Problem:
    tree = _Replace(changed).visit(ast.parse(text))
    code = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
    assert isinstance(code, CodeType)
    return Problem(execute(code, path, text), path, seed)


class _Replace(ast.NodeTransformer):
    """Puts other values into `NAME = ...` at module level."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = values

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # ast's own spelling
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id in self.values:
            value = self.values[target.id]
            made = (
                ast.Tuple([ast.Constant(v) for v in value], ast.Load())
                if isinstance(value, tuple)
                else ast.Constant(value)
            )
            node.value = ast.copy_location(made, node.value)
        return node


def _replaced(text: str, changed: Mapping[str, Value]) -> str:
    """The file's text with the same replacements, so that prompts and digests show what is really run."""
    lines = [f"{line}\n" for line in code_lines(text)] if changed else [text]
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in changed:
            name = node.targets[0].id
            lines[node.lineno - 1 : node.end_lineno] = [f"{name} = {changed[name]!r}\n"]
    return "".join(lines)


def _constants(tree: ast.Module) -> dict[str, int | tuple[int, ...] | None]:
    """Module constants by name; the number where it is a plain integer, or arithmetic on plain integers, or a tuple."""
    found: dict[str, int | tuple[int, ...] | None] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = _size(node.value)
    return found


def _size(node: ast.expr) -> int | tuple[int, ...] | None:
    if not isinstance(node, ast.Tuple):
        return _integer(node)
    sizes = [_integer(element) for element in node.elts]
    return None if None in sizes else tuple(size for size in sizes if size is not None)


def _integer(node: ast.expr) -> int | None:
    """`4096`, `2048 * 2`; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
    operations: dict[type[ast.operator], Callable[[int, int], int]] = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.FloorDiv: operator.floordiv,
    }
    if isinstance(node, ast.BinOp) and (apply := operations.get(type(node.op))) is not None:
        left, right = _integer(node.left), _integer(node.right)
        if left is not None and right is not None and (right or apply is not operator.floordiv):
            return apply(left, right)
    return None


def _shrunk(
    path: Path, text: str, changed: dict[str, Value], seed: int, max_bytes: int
) -> tuple[Problem, tuple[str, ...]]:
    """Halves the largest integer constant that matters, again and again, until inputs, answer and weights fit; where
    the model does not run with that one halved alone, all that have its value, in tuples as well.

    Constants the user set keep their value. `changed` receives the new sizes.
    """
    start = {n: v for n, v in _constants(ast.parse(text)).items() if v is not None and n not in changed}
    useless = set[int]()
    problem = _problem(path, text, changed, seed)
    now = problem.footprint()
    while now.nbytes > max_bytes:
        sizes = {n: changed.get(n, v) for n, v in start.items()}
        left = [v for value in sizes.values() for v in _integers(value) if v > 1 and v not in useless]
        if not left:
            raise OperatorError(
                f"inputs, answers or weights of {now.nbytes} bytes do not shrink to --max-bytes {max_bytes}",
                "set sizes yourself: --set NAME=VALUE",
                file=str(path),
            )
        for halved in _halvings(sizes, max(left)):
            attempt = _problem(path, text, changed | halved, seed)
            size = attempt.footprint()
            if size.nbytes < now.nbytes and size.runs >= now.runs:
                changed.update(halved)
                problem, now = attempt, size
                break
        else:
            useless.add(max(left))
    notes = [f"{n} shrunk from {v} to {changed[n]} to fit --max-bytes" for n, v in start.items() if n in changed]
    return problem, tuple(notes)


def _halvings(sizes: Mapping[str, Value], size: int) -> Iterator[dict[str, Value]]:
    """One constant of this size alone, each in turn; then all of them, in tuples too, which may belong together."""
    for name, value in sizes.items():
        if value == size:
            yield {name: size // 2}
    half = {name: _swapped(value, size) for name, value in sizes.items() if size in _integers(value)}
    if len(half) > 1 or any(isinstance(value, tuple) for value in half.values()):
        yield half


def _integers(value: Value) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,) if isinstance(value, int) else ()


def _swapped(value: Value, size: int) -> Value:
    return tuple(v // 2 if v == size else v for v in value) if isinstance(value, tuple) else size // 2


def _describe(name: str, value: Any) -> ArgumentInfo:
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return ArgumentInfo(name=name, kind="tensor", shape=str(tuple(value.shape)), dtypes=(dtype,))
    if isinstance(value, list | tuple):
        shapes = ", ".join(str(tuple(t.shape)) for t in value if isinstance(t, torch.Tensor))
        return ArgumentInfo(name=name, kind="list", shape=shapes)
    return ArgumentInfo(name=name, kind="scalar", values=repr(value))

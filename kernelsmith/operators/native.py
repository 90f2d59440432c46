"""Reads native operator files and checks their declarations against each other.

Called by `load` in the judge. The file is the user's own and trusted: it is executed here. Every mistake is an
OperatorError with file and line.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import math
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from kernelsmith.base import Scalar, digest
from kernelsmith.errors import USER_ERRORS, OperatorError, UsageError
from kernelsmith.files import read_text
from kernelsmith.model import ArgumentInfo, DimInfo, OperatorInfo, Workload
from kernelsmith.operators.declare import Operator, ScalarSpec, TensorSpec, WorkloadSpec
from kernelsmith.operators.expressions import Dim, Expression
from kernelsmith.operators.loaded import LoadedOperator, number
from kernelsmith.operators.trace import Trace, example, traced

MAX_DTYPE_SETS = 64
"""More combinations than this are cut, the first alternatives first."""
RETURN_IT = "return a tensor or a tuple of tensors"
RUN_IT = "mend the file: it runs as a plain Python module, in the environment that kernelsmith is installed in"


def read_source(path: Path) -> str:
    """Text of an operator file; OperatorError where there is none."""
    if not os.path.lexists(path):
        raise OperatorError(f"no such operator file: {path}", "check the path; examples/ has working ones")
    try:
        return read_text(path)
    except UsageError as error:
        raise OperatorError(f"cannot read {error.message}", "an operator file is Python text in UTF-8") from None


def execute(source: CodeType, path: Path, text: str) -> ModuleType:
    """Runs a compiled operator file as a module of its own; whatever it raises is an OperatorError."""
    module = ModuleType(f"kernelsmith_operator_{digest(text)}")
    module.__file__ = str(path)
    linecache.checkcache(str(path))
    sys.modules[module.__name__] = module  # dynamo looks a function's module up by name
    try:
        exec(source, module.__dict__)  # the user's own file
    except USER_ERRORS as error:
        raise placed(error, path) from error
    return module


def compiled(text: str, path: Path) -> CodeType:
    """The file's code object; a syntax error is an OperatorError, nesting beyond measure a RecursionError."""
    try:
        return compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise OperatorError(f"syntax error: {error.msg}", RUN_IT, file=str(path), line=error.lineno) from None
    except ValueError as error:
        raise OperatorError(f"not Python text: {error}", RUN_IT, file=str(path)) from None
    except MemoryError as error:  # the parser's word for too many levels
        raise RecursionError(f"{path} is nested too deeply for the parser") from error


def placed(error: BaseException, path: Path, doing: str = "", hint: str = RUN_IT) -> OperatorError:
    """`error` as an OperatorError at the innermost line of `path` that was running."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = lines[-1] if lines else None
    if isinstance(error, OperatorError):
        return error if error.file else OperatorError(error.message, error.hint, file=str(path), line=line)
    message = f"{type(error).__name__}: {error}".rstrip(": ")
    return OperatorError(f"{doing}{message}", hint, file=str(path), line=line)


def read(path: Path, text: str, module: ModuleType) -> LoadedOperator:
    """The one operator that `module` declares."""
    found = {
        id(value): value
        for value in vars(module).values()
        if isinstance(value, Operator) and value.function.__code__.co_filename == str(path)
    }
    operators = list(found.values())
    if not operators:
        raise OperatorError("declares no operator", "decorate the reference with @operator(...)", file=str(path))
    if len(operators) > 1:
        names = ", ".join(f"{o.function.__name__} (line {o.line})" for o in operators)
        raise OperatorError(f"declares {len(operators)} operators: {names}", "one per file", file=str(path))
    return _Reading(operators[0], path, text, module).loaded()


class _Reading:
    """Checks one declaration as a whole; exists only while a file is read."""

    def __init__(self, declared: Operator, path: Path, text: str, module: ModuleType) -> None:
        self.declared, self.path, self.text, self.module = declared, path, text, module
        self.parameters = inspect.signature(declared.function).parameters

    def error(self, message: str, hint: str = "", line: int | None = None) -> OperatorError:
        return OperatorError(message, hint, file=str(self.path), line=line or self.declared.line)

    def loaded(self) -> LoadedOperator:
        self._check_names()
        dims = self._dims()
        sets = self._dtype_sets()
        defaults = {n: p.default for n, p in self.parameters.items() if p.default is not inspect.Parameter.empty}
        arguments = {name: self.declared.arguments[name] for name in self.parameters}
        made = LoadedOperator(
            info=self._info(dims, arguments),
            function=self.declared.function,
            arguments=arguments,
            dims=dims,
            relations=self.declared.relations,
            dtype_sets=sets,
            defaults=defaults,
            plan_relevant=self.declared.plan_relevant,
            bound=self.declared.bound,
            check=self.declared.check,
            properties=self.declared.properties,
            baseline=self.declared.baseline,
            tolerance=self.declared.tolerance,
        )
        if not self.declared.workloads:
            raise self.error("no workload", "give at least one: workloads=[workload(M=4096, N=1024)]")
        workloads = tuple(self._workload(made, w) for w in self.declared.workloads)
        info = made.info.model_copy(update={"workloads": workloads})
        trace = self._trace(made, workloads)
        if not trace.returns and not self.declared.mutates:
            raise self.error("the reference returns nothing", RETURN_IT + ', or say what it changes: mutates="x"')
        return replace(made, info=info.model_copy(update={"ops": trace.names}), calls=trace.calls)

    def _trace(self, op: LoadedOperator, workloads: Sequence[Workload]) -> Trace:
        """The aten operators of the reference on the smallest workload; the first run of it, so it may raise."""

        def size(w: Workload) -> int:
            return sum(math.prod(op.shape(n, w.dims)) for n, s in op.arguments.items() if isinstance(s, TensorSpec))

        smallest = min(workloads, key=size)
        try:
            return traced(
                (op.reference, lambda: example_arguments(op, smallest, "meta")),
                (op.reference, lambda: example_arguments(op, smallest, "cpu")),
            )
        except USER_ERRORS as error:
            hint = "call it on such inputs; if they are not legal, say so: Dim ranges, where=, values=, low= and high="
            raise placed(error, self.path, f"the reference raised at {smallest.label}: ", hint) from error

    def _check_names(self) -> None:
        declared, name = self.declared.arguments, self.declared.function.__name__
        for parameter in self.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
                raise self.error(f"{name}: parameter {parameter.name} must be positional", "write *args out")
        if missing := [p for p in self.parameters if p not in declared]:
            raise self.error(f"{name}: parameter {missing[0]} is not declared", f"@operator({missing[0]}=tensor(...))")
        if extra := [a for a in declared if a not in self.parameters]:
            raise self.error(f"{name} has no parameter {extra[0]}", f"its parameters: {', '.join(self.parameters)}")
        for what in ("mutates", "plan_relevant"):
            for one in getattr(self.declared, what):
                if not isinstance(declared.get(one), TensorSpec):
                    raise self.error(f"{what}: {one!r} is not a tensor argument")

    def _dims(self) -> tuple[Dim, ...]:
        """Dims in order of first use; two with one name must be the same."""
        expressions: list[Expression] = []
        for spec in self.declared.arguments.values():
            if isinstance(spec, TensorSpec):
                expressions += [*spec.shape, *(() if spec.count is None else (spec.count,))]
            expressions += [b for b in (spec.low, spec.high) if isinstance(b, Expression)]
        used = [d for e in expressions for d in e.dims()] + [d for r in self.declared.relations for d in r.dims()]
        dims: dict[str, Dim] = {}
        for dim in used:
            known = dims.setdefault(dim.name, dim)
            if (known.low, known.high) != (dim.low, dim.high):
                raise self.error(f"two dims named {dim.name} with different ranges: {known!r} and {dim!r}")
        for rule in self.declared.relations:
            if unknown := [n for n in rule.names if n not in dims]:
                raise self.error(f"where= {rule}: no dim named {unknown[0]}", f"dims: {', '.join(dims) or 'none'}")
        return tuple(dims.values())

    def _dtype_sets(self) -> tuple[dict[str, str], ...]:
        specs = {n: s for n, s in self.declared.arguments.items() if isinstance(s, TensorSpec)}
        if self.declared.dtype_sets:
            return tuple(self._listed(one, specs) for one in self.declared.dtype_sets)
        free = {n: s.dtypes for n, s in specs.items() if s.same_as is None}
        product = itertools.islice(itertools.product(*free.values()), MAX_DTYPE_SETS)
        return tuple(self._tied(dict(zip(free, choice, strict=True)), specs) for choice in product)

    def _listed(self, one: Mapping[str, str], specs: Mapping[str, TensorSpec]) -> dict[str, str]:
        if unknown := [n for n in one if n not in specs]:
            raise self.error(f"dtypes: {unknown[0]!r} is not a tensor argument")
        chosen = {n: one.get(n, s.dtypes[0]) for n, s in specs.items() if s.same_as is None}
        return self._tied(chosen, specs)

    def _tied(self, chosen: dict[str, str], specs: Mapping[str, TensorSpec]) -> dict[str, str]:
        for name, spec in specs.items():
            source, seen = name, {name}
            while (following := specs[source].same_as) is not None:
                if following not in specs or following in seen:
                    raise self.error(f"{name}: dtypes='same as {spec.same_as}' leads to no tensor with dtypes")
                source = following
                seen.add(source)
            chosen[name] = chosen[source]
        return {name: chosen[name] for name in specs}

    def _info(self, dims: Sequence[Dim], arguments: Mapping[str, TensorSpec | ScalarSpec]) -> OperatorInfo:
        function = self.declared.function
        return OperatorInfo(
            name=function.__name__,
            kind="native",
            path=str(self.path),
            digest=digest(self.text),
            source=self.text,
            doc=inspect.cleandoc(self.module.__doc__ or function.__doc__ or ""),
            signature=f"def {function.__name__}{inspect.signature(function)}",
            dims=tuple(DimInfo(name=d.name, low=d.low, high=d.high) for d in dims),
            relations=tuple(str(r) for r in self.declared.relations),
            arguments=tuple(_describe(n, s) for n, s in arguments.items()),
            mutates=self.declared.mutates,
        )

    def _workload(self, op: LoadedOperator, given: WorkloadSpec) -> Workload:
        """`given` with its names sorted into dims, dtypes and scalars, and what it leaves out filled in."""
        left = dict(given.names)
        dims = {d.name: self._dim(d, left, given) for d in op.dims}
        if why := op.why_illegal(dims):
            raise self.error(f"workload {_words(given)}: {why}", "change the workload or the dims", given.line)
        wanted = {n: left.pop(n) for n, s in op.arguments.items() if isinstance(s, TensorSpec) and n in left}
        absent = {n: None for n, value in wanted.items() if value is None}
        for name in absent:
            if not op.arguments[name].optional:
                raise self.error(f"workload {_words(given)}: {name} is not optional", "", given.line)
        asked = {n: v for n, v in wanted.items() if v is not None}
        matching = [one for one in op.dtype_sets if all(one[n] == v for n, v in asked.items())]
        if not matching:
            legal = "; ".join(" ".join(f"{n}={v}" for n, v in one.items()) for one in op.dtype_sets[:6])
            raise self.error(f"workload {_words(given)}: dtypes not declared", f"legal: {legal}", given.line)
        scalars: dict[str, Scalar | None] = dict(absent)
        for name, spec in op.arguments.items():
            if isinstance(spec, ScalarSpec):
                scalars[name] = self._scalar(op, name, spec, left, dims, given)
        if left:
            raise self.error(
                f"workload {_words(given)}: no dim or argument named {next(iter(left))}",
                f"dims: {', '.join(d.name for d in op.dims) or 'none'}; arguments: {', '.join(op.arguments)}",
                given.line,
            )
        return Workload(dims=dims, dtypes=matching[0], scalars=scalars, weight=given.weight)

    def _dim(self, dim: Dim, left: dict[str, Scalar | None], given: WorkloadSpec) -> int:
        if dim.name not in left and dim.low == dim.high:
            return dim.low
        value = left.pop(dim.name, None)
        if not isinstance(value, int) or isinstance(value, bool):
            shown = "is missing" if value is None else f"is {value!r}, not an integer"
            raise self.error(f"workload {_words(given)}: dim {dim.name} {shown}", "", given.line)
        return value

    def _scalar(
        self,
        op: LoadedOperator,
        name: str,
        spec: ScalarSpec,
        left: dict[str, Scalar | None],
        dims: Mapping[str, int],
        given: WorkloadSpec,
    ) -> Scalar | None:
        fallback = spec.choices[0] if spec.choices else number(spec.low, dims)
        value: Any = left.pop(name, op.defaults.get(name, fallback))
        if not scalar_allowed(spec, value, dims):
            raise self.error(f"workload {_words(given)}: {name}={value!r} is not declared", "", given.line)
        return value  # type: ignore[no-any-return]


def example_arguments(op: LoadedOperator, w: Workload, device: str) -> list[Any]:
    """Some legal arguments at a workload: enough to see which operators the reference calls."""
    made: list[Any] = []
    for name, spec in op.arguments.items():
        if not isinstance(spec, TensorSpec) or name in w.scalars:
            made.append(w.scalars.get(name))
            continue
        low, high = number(spec.low, w.dims), number(spec.high, w.dims)
        shape = op.shape(name, w.dims)
        count = 1 if spec.count is None else spec.count.value(w.dims)
        items = [example(shape, w.dtypes[name], device, low, high) for _ in range(count)]
        made.append(items[0] if spec.count is None else items)
    return made


def scalar_allowed(spec: ScalarSpec, value: object, dims: Mapping[str, int]) -> bool:
    """Whether a scalar may have this value at these dims."""
    if value is None:
        return spec.optional
    if spec.choices:
        return value in spec.choices
    low, high = number(spec.low, dims), number(spec.high, dims)
    if isinstance(value, bool) or not isinstance(value, int | float) or low is None or high is None:
        return False
    return low <= value <= high and (spec.kind is float or isinstance(value, int))


def _words(given: WorkloadSpec) -> str:
    return "(" + ", ".join(f"{k}={v}" for k, v in given.names.items()) + ")"


def _describe(name: str, spec: TensorSpec | ScalarSpec) -> ArgumentInfo:
    if isinstance(spec, ScalarSpec):
        if spec.choices:
            values = "one of " + ", ".join(repr(c) for c in spec.choices)
        else:
            values = f"{spec.kind.__name__} from {spec.low} to {spec.high}"
        return ArgumentInfo(name=name, kind="scalar", values=values, optional=spec.optional)
    shape = ", ".join(str(size) for size in spec.shape) + ("," if len(spec.shape) == 1 else "")
    return ArgumentInfo(
        name=name,
        kind="tensor" if spec.count is None else "list",
        shape=f"({shape})" + ("" if spec.count is None else f" x {spec.count}"),
        dtypes=spec.dtypes or (f"same as {spec.same_as}",),
        layouts=tuple(layout.value for layout in spec.layouts),
        values=spec.describe_values(),
        optional=spec.optional,
    )

"""Starting kernels without a model: TorchInductor's own Triton for the reference, lifted into a stand-alone candidate.

The reference is compiled for the CPU with Inductor's Triton code generator and symbolic sizes; the generated wrapper is
caught before anything is built and handed to `lift_source`, which rewrites it as one plain module. Runs in the baseline
process, since it executes the user's code. What Inductor leaves to outside kernels (convolution, sort, ...) yields no
seed: that is a fact about the operator, not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from kernelsmith.evaluate.clock.lift_helpers import NotLiftableError
from kernelsmith.evaluate.clock.lift_source import Placeholder, Variant, rewrite
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.explore import cases, workload_cases
from kernelsmith.evaluate.truth.inputs import CallInputs, Case, materialise
from kernelsmith.model import Seed
from kernelsmith.operators.declare import ScalarSpec
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.operators.loaded import number
from kernelsmith.outcome import Level


class _CaughtError(Exception):
    """Raised in place of building what was generated."""


MARK = 0.3819660113
"""Where between the ends of its range a scalar's mark lies; any value without a short decimal does."""
MAX_VARIANTS = 8
"""More combinations of dtypes than this make the module too long to be worth it."""


def lift(operator: LoadedOperator) -> tuple[Seed, ...]:
    """Seeds for the operator: one module with a branch per combination of dtypes, for symbolic sizes; a KernelBench
    problem has one shape, so its module has fixed sizes."""
    dynamic = operator.problem is None
    variants = []
    try:
        for dtypes in operator.dtype_sets[:MAX_VARIANTS]:
            marks = _marks(operator)
            case = _example(operator, dtypes)
            inputs = materialise(operator, case.model_copy(update={"scalars": case.scalars | marks}), 0)
            code, placeholders = generate(operator.function, inputs, dynamic=dynamic)
            variants.append(Variant(dtypes=dtypes, code=code, placeholders=placeholders, marks=marks))
        source = rewrite(variants, operator)
    except NotLiftableError:
        return ()
    return (Seed(source=source, origin=f"inductor, {'symbolic' if dynamic else 'fixed'} sizes"),)


def _marks(operator: LoadedOperator) -> dict[str, float]:
    """An unusual value within its range for each float scalar: Inductor makes constants of some (an eps), and by their
    values they are found again."""
    marks = {}
    for position, (name, spec) in enumerate(operator.arguments.items()):
        if isinstance(spec, ScalarSpec) and spec.kind is float and not spec.choices:
            low, high = number(spec.low, {}), number(spec.high, {})
            if low is not None and high is not None and low < high:
                marks[name] = low + (high - low) * (MARK + position / 97)
    return marks


def _example(operator: LoadedOperator, dtypes: dict[str, str]) -> Case:
    """A small case with these dtypes whose dims all differ, since dynamo takes equal sizes for the same symbol and a
    size of 1 for a constant. A KernelBench problem's only case is its own."""
    tuned = workload_cases(operator)[0]
    if operator.problem is not None:
        return tuned
    for case in cases(operator, level=Level.FULL, seed=0, blocks=()):
        sizes = list(case.dims.values())
        plain = set(case.layouts.values()) <= {"contiguous"} and not case.absent and case.scalars == tuned.scalars
        if plain and len(set(sizes)) == len(sizes) and min(sizes, default=0) > 1:
            return case.model_copy(update={"dtypes": dtypes, "values": Values.NORMAL, "focus": None, "workload": None})
    return tuned.model_copy(update={"dtypes": dtypes, "workload": None})


def generate(
    reference: Callable[..., Any], inputs: CallInputs, *, dynamic: bool
) -> tuple[str, tuple[Placeholder, ...]]:
    """Inductor's wrapper module for one call of the reference, as text, and where each of its arguments comes from.
    Raises NotLiftableError where it makes none."""
    import torch._dynamo
    import torch._inductor.config as config
    from torch._inductor.compile_fx import compile_fx

    placeholders: list[Placeholder] = []

    def backend(module: torch.fx.GraphModule, example: Sequence[Any]) -> Any:
        placeholders[:] = _placeholders(module)  # dynamo may start over, for example to make a float symbolic
        return compile_fx(module, example)

    namespace: dict[str, Any] = {"reference": reference}
    names = ", ".join(inputs.names)
    exec(compile(f"def call({names}):\n    return reference({names})\n", "<lift>", "exec"), namespace)
    torch._dynamo.reset()
    with (
        _caught() as wrappers,
        config.patch(
            cpu_backend="triton",
            fx_graph_cache=False,
            compile_threads=1,  # else processes are started that load torch to build it, and nothing is built
        ),
        torch.no_grad(),
    ):
        try:
            compiled: Callable[..., Any] = torch.compile(
                namespace["call"], backend=backend, dynamic=dynamic, fullgraph=True
            )
            compiled(*_apart(inputs.arguments()))
        except Exception as error:
            if not wrappers:
                first = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise NotLiftableError(f"Inductor made nothing of the reference: {first}") from error
        finally:
            torch._dynamo.reset()
    return wrappers[-1], tuple(placeholders)


def _apart(arguments: list[Any]) -> list[Any]:
    """The arguments in storages of their own: an offset would become one more symbol."""
    return [
        a.clone() if isinstance(a, torch.Tensor) else [t.clone() for t in a] if isinstance(a, list) else a
        for a in arguments
    ]


def _placeholders(module: torch.fx.GraphModule) -> Iterator[Placeholder]:
    """The graph's inputs in order, each with the Python expression dynamo took it from."""
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        graph_argument = node.meta.get("grapharg")
        if graph_argument is None or graph_argument.source is None:
            raise NotLiftableError(f"input {node.name} of the graph has no source")
        is_tensor = isinstance(node.meta.get("example_value"), torch.Tensor)
        yield Placeholder(source=graph_argument.source.name, is_tensor=is_tensor)


@contextmanager
def _caught() -> Iterator[list[str]]:
    """Within: whatever Inductor generates is kept as text and not built."""
    from torch._inductor.graph import GraphLowering

    wrappers: list[str] = []

    def keep(self: Any) -> Any:
        code, _ = self.codegen()
        wrappers.append(code.value)
        raise _CaughtError

    original = GraphLowering.compile_to_module
    GraphLowering.compile_to_module = keep  # type: ignore[method-assign]
    try:
        yield wrappers
    finally:
        GraphLowering.compile_to_module = original  # type: ignore[method-assign]

"""Starting kernels without a model: TorchInductor's own Triton for the reference, lifted into a stand-alone candidate.

The reference is compiled for the CPU with Inductor's Triton code generator and symbolic sizes; the generated wrapper is
caught before anything is built and handed to `lift_source`, which rewrites it as one plain module. Runs in the baseline
process, since it executes the user's code. What Inductor leaves to outside kernels (convolution, sort, ...) yields no
seed: that is a fact about the operator, not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kernelsmith.evaluate.explore import workload_cases
from kernelsmith.evaluate.inputs import CallInputs, materialise
from kernelsmith.evaluate.lift_source import NotLiftableError, Placeholder, rewrite
from kernelsmith.model import Seed
from kernelsmith.operators.load import LoadedOperator


class _CaughtError(Exception):
    """Raised in place of building what was generated."""


@dataclass(frozen=True)
class Generated:
    """What Inductor would have built: the wrapper module's text and where each of its arguments comes from."""

    code: str
    placeholders: tuple[Placeholder, ...]


def lift(operator: LoadedOperator) -> tuple[Seed, ...]:
    """Seeds for the operator: symbolic sizes first, then one per distinct dtype combination of its workloads."""
    seeds: dict[str, Seed] = {}
    tried: set[str] = set()
    for index, workload in enumerate(operator.workloads):
        key = repr(sorted(workload.dtypes.items()))
        if key in tried:
            continue
        tried.add(key)
        for dynamic in (True, False) if operator.problem is None else (False,):
            inputs = materialise(operator, workload_cases(operator)[index], 0)
            try:
                generated = generate(operator.reference, inputs, dynamic=dynamic)
                source = rewrite(generated.code, generated.placeholders, operator)
            except NotLiftableError:
                continue
            kind = "symbolic sizes" if dynamic else "fixed sizes"
            seeds.setdefault(source, Seed(source=source, origin=f"inductor, {kind}"))
    return tuple(seeds.values())


def generate(reference: Callable[..., Any], inputs: CallInputs, *, dynamic: bool) -> Generated:
    """Inductor's Triton for one call of the reference. Raises NotLiftableError where it makes none."""
    import torch._dynamo
    import torch._inductor.config as config
    from torch._inductor.compile_fx import compile_fx

    placeholders: list[Placeholder] = []

    def backend(module: torch.fx.GraphModule, example: Sequence[Any]) -> Any:
        if placeholders:
            raise NotLiftableError("the reference breaks into several graphs")
        placeholders.extend(_placeholders(module))
        return compile_fx(module, example)

    namespace: dict[str, Any] = {"reference": reference}
    names = ", ".join(inputs.names)
    exec(compile(f"def call({names}):\n    return reference({names})\n", "<lift>", "exec"), namespace)
    torch._dynamo.reset()
    with _caught() as wrappers, config.patch(cpu_backend="triton", fx_graph_cache=False), torch.no_grad():
        try:
            torch.compile(namespace["call"], backend=backend, dynamic=dynamic, fullgraph=True)(*inputs.arguments())
        except Exception as error:
            if not wrappers:
                first = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise NotLiftableError(f"Inductor made nothing of the reference: {first}") from error
        finally:
            torch._dynamo.reset()
    if len(wrappers) != 1:
        raise NotLiftableError("the reference breaks into several graphs")
    return Generated(wrappers[0], tuple(placeholders))


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

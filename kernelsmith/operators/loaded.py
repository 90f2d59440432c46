"""`LoadedOperator`: what the judge knows of an operator, whichever file format it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import OperatorError
from kernelsmith.model import OperatorInfo, Workload
from kernelsmith.operators.declare import ScalarSpec, TensorSpec
from kernelsmith.operators.expressions import Dim, Expression, Predicate, Relation
from kernelsmith.tolerances import Policy

if TYPE_CHECKING:
    from kernelsmith.operators.kernelbench import Problem


@dataclass(frozen=True, eq=False)
class LoadedOperator:
    """An operator ready to be judged. Lives in the judge; holds the user's functions, never a candidate's."""

    info: OperatorInfo
    function: Callable[..., Any]
    """The reference; a KernelBench problem's is its model under `model_seed`."""
    arguments: Mapping[str, TensorSpec | ScalarSpec]
    """Declared arguments in the order of the call; empty for a KernelBench problem."""
    dims: tuple[Dim, ...] = ()
    relations: tuple[Relation | Predicate, ...] = ()
    dtype_sets: tuple[dict[str, str], ...] = ({},)
    """Every legal combination: dtype by tensor argument."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default values in the reference's signature, by argument."""
    plan_relevant: tuple[str, ...] = ()
    bound: Callable[..., Any] | None = None
    check: Callable[..., Any] | None = None
    properties: Callable[..., Any] | None = None
    baseline: Callable[..., Any] | None = None
    tolerance: str | None = None
    """Name of the policy that the file asks for."""
    policy: Policy | None = None
    """The tolerances that answers are held to instead of the measured bound."""
    calls: int = 0
    """Aten calls of one run at the smallest workload; thousands mean a Python loop over a dim."""
    problem: Problem | None = None
    """Set for KernelBench problems: how `ModelNew` is to be constructed and inputs are drawn."""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def mutates(self) -> tuple[str, ...]:
        return self.info.mutates

    @property
    def workloads(self) -> tuple[Workload, ...]:
        return self.info.workloads

    def reference(self, *args: Any) -> Any:
        """The answer by definition; random numbers come from torch's global generator, which the caller seeds."""
        return self.function(*args)

    def reference_in_double(self, *args: Any) -> Any:
        """`reference` on float64 inputs; a KernelBench model's parameters are float64 then."""
        return self.function(*args) if self.problem is None else self.problem.in_double(*args)

    def legal(self, dims: Mapping[str, int]) -> bool:
        """Whether these dims lie in the declared space: ranges, relations and sizes that are not negative."""
        return self.why_illegal(dims) is None

    def why_illegal(self, dims: Mapping[str, int]) -> str | None:
        """The first rule these dims break, or None."""
        return next((why for why, _ in self.broken(dims)), None)

    def broken(self, dims: Mapping[str, int]) -> Iterator[tuple[str, frozenset[str]]]:
        """Every rule these dims break, in words, with the names of the dims it is about.

        A size may be 0 only where a dim is 0.
        """
        for dim in self.dims:
            if not dim.low <= dims[dim.name] <= dim.high:
                yield f"{dim.name}={dims[dim.name]} is outside {dim.low}..{dim.high}", frozenset({dim.name})
        for rule in self.relations:
            if not rule.holds(dims):
                yield f"where= {rule} does not hold", frozenset(rule.names)
        least = 0 if 0 in dims.values() else 1
        for name, spec in self.arguments.items():
            if isinstance(spec, TensorSpec):
                for size in (*spec.shape, *(() if spec.count is None else (spec.count,))):
                    try:
                        n = size.value(dims)
                    except ZeroDivisionError:
                        yield f"size {size} of {name} divides by zero", size.names
                    else:
                        if n < least:
                            yield f"size {size} of {name} is {n}", size.names

    def shape(self, name: str, dims: Mapping[str, int]) -> tuple[int, ...]:
        spec = self.arguments[name]
        if not isinstance(spec, TensorSpec):
            raise OperatorError(f"{name} is not a tensor")
        return tuple(size.value(dims) for size in spec.shape)


def number(bound: Expression | float | None, dims: Mapping[str, int]) -> float | int | None:
    """A declared bound of values at these dims."""
    return bound.value(dims) if isinstance(bound, Expression) else bound

"""One process that runs OpInfo operators through TorchInductor and reports each case as a JSON line.

A process of its own, because a fault in generated code would take the table with it. `inductor` starts it with operator
names and reads its standard output; it exits when it has done them all.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import torch
from torch.utils import _pytree as pytree

from kernelsmith.triton_cpu.driver import CPUDriver

DTYPES = (torch.float32, torch.bfloat16, torch.int64)
# What a result is compared with if eager's own rounding is the worse one.
WIDER = {torch.bfloat16: torch.float32, torch.float32: torch.float64}
LOOSEST = 2e-2
"""OpInfo's own tolerances go up to 1.0 for tests of other things; beyond this none is taken from there."""


@dataclass(frozen=True)
class Case:
    """One sample of one operator: how it ended, and how many kernels of this backend ran for it."""

    operator: str
    dtype: str
    sample: int
    verdict: str
    launches: int
    reason: str = ""


@dataclass(frozen=True)
class Options:
    """How many samples per type, and whether shapes are symbolic."""

    samples: int
    dynamic: bool


class Launches:
    """Counts launches of every kernel that the CPU driver makes."""

    def __init__(self) -> None:
        self.count = 0
        plain: Any = CPUDriver.launcher_cls

        class Counting(plain):  # type: ignore[misc]
            def __call__(launcher, *arguments: Any) -> None:
                self.count += 1
                super().__call__(*arguments)

        CPUDriver.launcher_cls = Counting


def configure() -> None:
    """TorchInductor's Triton code for CPU tensors, compiled in this process, never from a cache."""
    from torch._inductor import config
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    config.cpu_backend = "triton"
    config.compile_threads = 1
    config.force_disable_caches = True
    warnings.filterwarnings("ignore", message="dynamo_pgo force disabled")
    torch._dynamo.config.recompile_limit = 1 << 20
    torch.set_num_threads(1)
    # One configuration is as right as another, and timing them all would take most of the run.
    CachingAutotuner.bench = _place_in_list  # type: ignore[assignment,method-assign]


def _place_in_list(tuner: Any, launcher: Any, *arguments: Any, **named: Any) -> float:
    """Instead of a configuration's time: the first is the fastest. Never 0, by which Inductor would divide."""
    return float(1 + tuner.launchers.index(launcher))


def operators() -> dict[str, Any]:
    """OpInfo's entries by full name (`nn.functional.pad.constant`)."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {entry.full_name: entry for entry in op_db}


def tolerance(entry: Any, dtype: torch.dtype) -> tuple[float, float]:
    """Relative and absolute: the widest that OpInfo itself gives for this operator and type, or assert_close's own."""
    from torch.testing._comparison import default_tolerances
    from torch.testing._internal.common_device_type import toleranceOverride

    rtol, atol = default_tolerances(dtype)
    if dtype.is_floating_point:
        for info in entry.decorators:
            for decorator in getattr(info, "decorators", [info]):
                if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                    given = decorator.d[dtype]
                    rtol, atol = max(rtol, min(given.rtol, LOOSEST)), max(atol, min(given.atol, LOOSEST))
    return rtol, atol


def samples(entry: Any, dtype: torch.dtype, limit: int) -> list[Any]:
    """At most `limit` of OpInfo's samples, spread over them all."""
    torch.manual_seed(0)
    found = list(entry.sample_inputs("cpu", dtype, requires_grad=False))
    if len(found) <= limit:
        return found
    return [found[number * len(found) // limit] for number in range(limit)]


def cast(tree: Any, source: torch.dtype, target: torch.dtype) -> Any:
    """Tensors of one type become tensors of another, and a type given as an argument likewise."""

    def leaf(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return item.to(target) if item.dtype == source else item
        return target if item is source else item

    return pytree.tree_map(leaf, tree)


def reference(entry: Any, sample: Any, source: torch.dtype, target: torch.dtype) -> Any:
    """What eager PyTorch says, computed in `target`."""
    arguments = cast((sample.input, sample.args, sample.kwargs), source, target)
    return entry.op(arguments[0], *arguments[1], **arguments[2])


def compare(entry: Any, actual: Any, expected: Any) -> None:
    """Raises AssertionError unless two results agree in structure, type, shape and value; integers exactly."""
    (leaves, shape), (wanted, form) = pytree.tree_flatten(actual), pytree.tree_flatten(expected)
    if shape != form:
        raise AssertionError(f"the result is {shape}, not {form}")
    for item, right in zip(leaves, wanted, strict=True):
        rtol, atol = tolerance(entry, right.dtype) if isinstance(right, torch.Tensor) else (None, None)
        torch.testing.assert_close(item, right, rtol=rtol, atol=atol, equal_nan=True)


def judge(entry: Any, sample: Any, dtype: torch.dtype, actual: Any, expected: Any) -> None:
    """Raises AssertionError if a result agrees neither with eager nor with eager in the next wider type."""
    try:
        compare(entry, actual, expected)
    except AssertionError as error:
        if dtype not in WIDER:
            raise
        wider = WIDER[dtype]
        try:
            exact = cast(reference(entry, sample, dtype, wider), wider, dtype)
        except RuntimeError:  # not an operator of that type
            raise error from None
        compare(entry, actual, exact)


def run_sample(entry: Any, sample: Any, dtype: torch.dtype, *, dynamic: bool) -> str:
    """Compile one sample and compare; returns what is wrong, or nothing."""
    torch._dynamo.reset()
    expected = reference(entry, sample, dtype, dtype)

    def function(first: Any, others: Any, named: Any) -> Any:
        return entry.op(first, *others, **named)

    try:
        actual = torch.compile(function, dynamic=dynamic)(sample.input, sample.args, sample.kwargs)
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises is the table's content
        return f"error: {type(error).__name__}: {error}"
    try:
        judge(entry, sample, dtype, actual, expected)
    except AssertionError as error:
        return f"wrong: {error}"
    return ""


def run_operator(name: str, entry: Any, launches: Launches, options: Options) -> Iterator[Case]:
    for dtype in DTYPES:
        if dtype not in entry.dtypes:
            continue
        for number, sample in enumerate(samples(entry, dtype, options.samples)):
            before = launches.count
            problem = run_sample(entry, sample, dtype, dynamic=options.dynamic)
            verdict, _, reason = problem.partition(": ")
            kind = str(dtype).removeprefix("torch.")
            yield Case(name, kind, number, verdict or "right", launches.count - before, reason[:2000])


def work(names: Sequence[str], options: Options, out: TextIO) -> None:
    """Announce each operator, then write its cases."""
    configure()
    launches = Launches()
    entries = operators()
    for name in names:
        say(out, {"start": name})
        for case in run_operator(name, entries[name], launches, options):
            say(out, dataclasses.asdict(case))
        say(out, {"end": name})


def say(out: TextIO, record: dict[str, Any]) -> None:
    out.write(json.dumps(record) + "\n")
    out.flush()


def main(arguments: Sequence[str]) -> None:
    """`SAMPLES static|dynamic NAME...`. What operators print goes to standard error, past the report."""
    report = sys.stdout
    sys.stdout = sys.stderr
    work(arguments[2:], Options(int(arguments[0]), arguments[1] == "dynamic"), report)


if __name__ == "__main__":
    main(sys.argv[1:])

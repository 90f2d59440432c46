"""Operators and candidates that fail where a test says, as plain functions of a case."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from kernelsmith.evaluate.region.runs import Runs
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Outcome
from tests.operators.files import made

ROWS = """
@operator(
    x=tensor(M, N, dtypes=("float32", "float16"), values="nan", layouts=("contiguous", "transposed", "stepped")),
    causal=scalar(choices=(False, True)),
    workloads=[workload(M=64, N=1024, x="float16", causal=False)],
)
def rows(x, causal):
    return x.sum(-1)
"""
HEADS = """
H, K = Dim("H", 1, 64), Dim("K", 8, 4096)

@operator(
    x=tensor(H, K),
    where=[K % 8 == 0, K == 16 * H],
    workloads=[workload(H=4, K=64)],
)
def heads(x):
    return x.sum(-1)
"""

Planted = Callable[[Case], bool]


def rows(folder: Path) -> LoadedOperator:
    """M and N up to thousands, two dtypes, three layouts, a flag."""
    return made(folder, ROWS)


def heads(folder: Path) -> LoadedOperator:
    """One dim tied to the other."""
    return made(folder, HEADS)


def case(dims: Mapping[str, int], **more: object) -> Case:
    """A plain one, of `rows`."""
    plain: dict[str, object] = {"dtypes": {"x": "float32"}, "scalars": {"causal": False}}
    return Case.model_validate({"dims": dict(dims), **plain, **more})


def planted(wrong: Planted, *, most: int = 600) -> Runs:
    """Runs of a candidate that is wrong where a function says; time never ends."""
    return Runs(
        lambda one: Outcome.WRONG_VALUES if wrong(one) else None, seconds=math.inf, most=most, clock=lambda: 0.0
    )

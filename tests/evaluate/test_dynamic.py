"""Answers whose shape follows from contents: refused with words, unless the arguments that decide it are declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth.dynamic import refuse_dynamic
from tests.operators.files import made

ONE = "\n@operator(x=tensor(N), workloads=[workload(N=64)])\ndef op(x):\n    return {}\n"
LONGEST = """
@operator(
    x=tensor(N), ends=tensor(5, dtypes='int32', values='offsets', low=0, high=N), {} workloads=[workload(N=64)]
)
def op(x, ends):
    return x.new_zeros(int(ends.diff().max())) + x[0]
"""


@pytest.mark.parametrize(
    "body", ["(x > 0).nonzero()", "x[x > 0]", "torch.unique(x.round())", "(x, x.masked_select(x > 1))"]
)
def test_a_shape_that_follows_from_contents_is_refused(tmp_path: Path, body: str) -> None:
    with pytest.raises(OperatorError, match="depends on the contents") as refused:
        refuse_dynamic(made(tmp_path, ONE.format(body)), 0)
    assert "plan_relevant" in refused.value.hint


@pytest.mark.parametrize("body", ["x * 2", "x.sum(0)", "torch.sort(x).values, x[: x.shape[0] // 2]"])
def test_other_shapes_are_not(tmp_path: Path, body: str) -> None:
    refuse_dynamic(made(tmp_path, ONE.format(body)), 0)


def test_a_plan_may_depend_on_declared_arguments(tmp_path: Path) -> None:
    refuse_dynamic(made(tmp_path, LONGEST.format("plan_relevant='ends',")), 0)
    with pytest.raises(OperatorError, match="depends on the contents"):
        refuse_dynamic(made(tmp_path, LONGEST.format("")), 0)

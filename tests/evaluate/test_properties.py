"""What an operator says of several calls together, and contents that differ from others in a few elements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.check.properties import violated
from kernelsmith.evaluate.truth.inputs import CallInputs, Case, altered, materialise
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Outcome
from tests.operators.files import made

OPERATOR = """
def holds(call, x, p):
    {body}

@operator(
    x=tensor(N, M, layouts={layouts}), p=scalar(float, 0.0, 1.0), mutates={mutates}, properties=holds,
    workloads=[workload(N=4, M=8, p=0.5)],
)
def noise(x, p):
    return x {by} p
"""


def written(folder: Path, body: str, *, layouts: str = '("contiguous",)', mutates: str = "()") -> LoadedOperator:
    by = "*" if mutates == "()" else ".mul_(p) *"
    return made(folder, OPERATOR.format(body=body, layouts=layouts, mutates=mutates, by=by))


def inputs_of(op: LoadedOperator, layout: str = "contiguous") -> CallInputs:
    case = Case(dims={"M": 5, "N": 6}, dtypes={"x": "float32"}, layouts={"x": layout}, scalars={"p": 0.25})
    return materialise(op, case, 3)


def calling(function: Callable[..., Any], given: list[CallInputs]) -> Callable[[CallInputs], Any]:
    """A candidate in this process; keeps what it was called with."""

    def answer(inputs: CallInputs) -> tuple[Any, list[torch.Tensor]]:
        given.append(inputs)
        storages = [b.storage.clone() for b in inputs.buffers()]
        return function(*inputs.on(storages)), storages

    return answer


@pytest.mark.parametrize("layout", ["contiguous", "rows sliced", "transposed", "expanded", "stepped"])
def test_calls_get_the_tensors_they_were_given_as_the_case_lays_them_out(tmp_path: Path, layout: str) -> None:
    body = "return torch.equal(call(x + 1, 0.5), (x + 1) * 0.5) and torch.equal(call(x, p), x * p)"
    op = written(tmp_path, body, layouts=f"({layout!r},)")
    inputs, given = inputs_of(op, layout), []
    assert violated(op, inputs, calling(lambda x, p: x * p, given)) is None
    assert [g.buffers()[0].view.strides for g in given] == [inputs.buffers()[0].view.strides] * 2
    assert [g.values[1].value for g in given] == [0.5, 0.25]


def test_rows_that_differ_are_not_given_as_one_expanded_row(tmp_path: Path) -> None:
    op = written(tmp_path, "y = torch.randn(6, 5); return torch.equal(call(y, p), y * p)", layouts='("expanded",)')
    assert violated(op, inputs_of(op, "expanded"), calling(lambda x, p: x * p, [])) is None


def test_what_a_call_mutates_comes_back(tmp_path: Path) -> None:
    op = written(tmp_path, "y = x.clone(); call(y, p); return torch.equal(y, x * p)", mutates='("x",)')
    assert violated(op, inputs_of(op), calling(lambda x, p: x.mul_(p), [])) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return torch.equal(call(x, p), x)", "do not hold"),
        ("assert torch.equal(call(x, p), call(x, p)), 'another answer'; return True", "another answer"),
    ],
)
def test_a_property_that_does_not_hold_rejects(tmp_path: Path, body: str, words: str) -> None:
    op = written(tmp_path, body)
    finding = violated(op, inputs_of(op), calling(lambda x, p: x + torch.rand(()), []))
    assert finding is not None
    assert finding.outcome is Outcome.WRONG_VALUES
    assert words in finding.message


@pytest.mark.parametrize(
    ("body", "words"),
    [("return 1 / 0", "ZeroDivisionError"), ("return call(x)", "takes 2"), ("return call(x, [p, {}])", "properties=")],
)
def test_a_broken_property_is_the_operators_fault(tmp_path: Path, body: str, words: str) -> None:
    op = written(tmp_path, body)
    with pytest.raises(OperatorError, match=words):
        violated(op, inputs_of(op), calling(lambda x, p: x, []))


def test_altered_contents_differ_in_few_elements(tmp_path: Path) -> None:
    op = made(
        tmp_path,
        """
        @operator(
            x=tensor(N), y=tensor(N, layouts=("stepped",)), order=tensor(N, dtypes="int64", values="sorted"),
            workloads=[workload(N=1000)],
        )
        def op(x, y, order):
            return x * y
        """,
    )
    case = Case(dims={"N": 1000}, dtypes={"x": "float32", "y": "float32", "order": "int64"}, layouts={"y": "stepped"})
    one, two = materialise(op, case, 1), materialise(op, case, 2)
    mixed = altered(op, one, two)
    for name, a, b, m in zip(one.names, one.arguments(), two.arguments(), mixed.arguments(), strict=True):
        changed = m != a
        assert torch.equal(m[changed], b[changed])
        assert m.stride() == a.stride()
        assert int(changed.sum()) == 0 if name == "order" else 10 < int(changed.sum()) < 80
    tiny = case.model_copy(update={"dims": {"N": 1}})
    one, two = materialise(op, tiny, 1), materialise(op, tiny, 2)
    assert torch.equal(altered(op, one, two).arguments()[0], two.arguments()[0])

"""How near answers came to their limit, in units that a person understands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kernelsmith.evaluate.truth.compare import compare
from kernelsmith.evaluate.truth.inputs import Case, materialise
from kernelsmith.evaluate.truth.margins import Margins, spacing, times
from kernelsmith.evaluate.truth.oracle import truth
from kernelsmith.evidence import Closeness, Rule
from tests.operators.files import made

OPERATOR = """
@operator(x=tensor(M, N, dtypes=FLOATS), {options} workloads=[workload(M=4, N=8)])
def f(x):
    return {body}
"""


class Compared:
    """One operator whose answers are compared; its margins are kept."""

    def __init__(self, folder: Path, body: str, options: str = "", dtype: str = "float32") -> None:
        self.op = made(folder, OPERATOR.format(body=body, options=options))
        self.inputs = materialise(self.op, Case(dims={"M": 4, "N": 8}, dtypes={"x": dtype}), 5)
        self.truth = truth(self.op, self.inputs, draws=8)
        self.margins = Margins()

    def told(self, *outputs: torch.Tensor) -> str:
        """What is said of an answer."""
        found = compare(self.truth, outputs, self.op, self.inputs, margins=self.margins)
        return found.message if found else ""

    def answer(self) -> Any:
        return self.op.reference(*self.inputs.arguments())

    @property
    def closest(self) -> Closeness:
        (one,) = self.margins.closeness()
        return one


def test_the_nearest_of_all_answers_is_kept_with_its_place(tmp_path: Path) -> None:
    seen = Compared(tmp_path, "x * 2")
    exact = seen.answer()
    assert seen.told(exact) == ""
    assert seen.closest.share == 0
    off = exact.clone()
    off[2, 3] = torch.nextafter(off[2, 3], torch.tensor(torch.inf))
    assert seen.told(off) == ""
    assert seen.told(exact) == ""
    assert seen.closest.ulp == pytest.approx(1)
    assert seen.closest.share is not None
    assert 0 < seen.closest.share < 1
    words = seen.closest.describe()
    assert words.startswith("closest to its limit: output 0 (float32), 1 ulp, ")
    assert words.endswith(" % of what an honest kernel may be off, at M=4, N=8, x=float32, normal values")


def test_a_failure_says_how_far_beyond(tmp_path: Path) -> None:
    seen = Compared(tmp_path, "x * 2")
    expected = seen.truth.outputs[0]
    assert expected.bound is not None
    off = seen.answer()
    off[1, 2] = expected.truth[1, 2] + 5 * expected.bound[1, 2]
    assert " times what an honest kernel may be off); 1 of 32 elements are wrong" in seen.told(off)
    assert seen.closest.share == pytest.approx(5, rel=0.5)
    off[1, 2] = torch.nan
    assert "times" not in seen.told(off)


def test_large_answers_are_compared_part_by_part(tmp_path: Path) -> None:
    op = made(tmp_path, OPERATOR.format(body="x * 2", options=""))
    inputs = materialise(op, Case(dims={"M": 70, "N": 2048}, dtypes={"x": "float32"}), 5)
    known, margins = truth(op, inputs, draws=1), Margins()
    answer = op.reference(*inputs.arguments())
    answer[69, 2047] = torch.nextafter(answer[69, 2047], torch.tensor(torch.inf))
    assert compare(known, [answer], op, inputs, margins=margins) is None
    (one,) = margins.closeness()
    assert one.ulp == pytest.approx(1)


def test_rules_without_a_distance_are_named(tmp_path: Path) -> None:
    exact = Compared(tmp_path, "x.argmax(-1)")
    assert exact.told(exact.answer()) == ""
    assert (exact.closest.rule, exact.closest.share, exact.closest.describe()) == (Rule.EXACT, None, "")
    checked = Compared(tmp_path, "x * 2", "check=lambda y, want, x: True,")
    assert checked.told(checked.answer()) == ""
    assert checked.closest.rule == Rule.CHECK
    bounded = Compared(tmp_path, "x.sum(-1)", "bound=lambda x: x.double().abs().sum(1),")
    assert bounded.told(bounded.answer()) == ""
    assert bounded.closest.rule == Rule.BOUND


def test_a_policy_is_named_in_failures(tmp_path: Path) -> None:
    seen = Compared(tmp_path, "x * 2", "tolerance='torch',", dtype="float16")
    assert "times what the policy `torch` allows)" in seen.told(seen.answer() * 1.01)
    assert seen.closest.rule == "torch"


def test_nothing_has_no_distance(tmp_path: Path) -> None:
    seen = Compared(tmp_path, "x[:, :0] * 2")
    assert seen.told(seen.answer()) == ""
    assert seen.margins.closeness() == ()


def test_complex_answers_have_a_distance(tmp_path: Path) -> None:
    seen = Compared(tmp_path, "torch.complex(x, x) * 3")
    assert seen.told(seen.answer() * (1 + 1e-7)) == ""
    assert seen.closest.share
    assert "times what an honest kernel may be off" in seen.told(seen.answer() * (1 + 1e-3))


def test_not_a_number_is_no_distance(tmp_path: Path) -> None:
    seen = Compared(tmp_path, "x / 0 * 0")
    assert seen.told(seen.answer()) == ""
    assert seen.margins.closeness() == ()


@pytest.mark.parametrize(
    ("size", "dtype", "unit"),
    [
        (1.0, torch.float32, 2.0**-23),
        (1.99, torch.bfloat16, 2.0**-7),
        (1024.0, torch.float16, 1.0),
        (0.0, torch.float16, 2.0**-24),
        (1e-45, torch.float32, 2.0**-149),
        (3.0, torch.float64, 2.0**-51),
    ],
)
def test_the_unit_in_the_last_place(size: float, dtype: torch.dtype, unit: float) -> None:
    assert spacing(size, dtype) == unit


@pytest.mark.parametrize(
    ("share", "words"), [(1.0004, "1 times"), (1.02, "1.02 times"), (5.04, "5 times"), (1234.4, "1,234 times")]
)
def test_how_many_times_beyond(share: float, words: str) -> None:
    assert times(share) == words


def test_more_than_anyone_wants_to_read() -> None:
    assert times(3e12) == "more than a million times"

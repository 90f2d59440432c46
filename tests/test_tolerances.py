"""A team's tolerance policies: what is one, what is refused, and where it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import tolerances
from kernelsmith.errors import OperatorError, UsageError
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import load
from kernelsmith.summary import check_command
from tests.operators.files import write

OURS = {"float32": {"rtol": 1e-3, "atol": 0.0}}
TEXT = """
@operator(x=tensor(M, N), {options} workloads=[workload(M=4, N=8)])
def f(x):
    return x * 2
"""


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (3, "tolerances = 3 is no table"),
        ({"ours": {}}, r"\[tolerances.ours\]: Dictionary should have at least 1 item"),
        ({"ours": {"float33": {"rtol": 1, "atol": 1}}}, "float33"),
        ({"ours": {"float32": {"rtol": 0.1}}}, r"\[tolerances.ours\], float32, atol: Field required"),
        ({"ours": {"float32": {"rtol": 0.1, "atol": 0, "abs": 1}}}, "float32, abs: Extra inputs"),
        ({"ours": {"float32": {"rtol": 0, "atol": 0}}}, "cannot both be 0"),
        ({"ours": {"float32": {"rtol": 1.0, "atol": 0}}}, "float32, rtol: Input should be less than 1"),
        ({"ours": {"float32": {"rtol": 0.1, "atol": float("inf")}}}, "finite"),
        ({"exact": OURS}, "`exact` is no name for a policy"),
        ({"no name": OURS}, r"\[tolerances.no name\]: String"),
    ],
)
def test_what_is_no_policy_is_refused_in_words(table: object, message: str) -> None:
    with pytest.raises(UsageError, match=f"team.toml: .*{message}") as raised:
        tolerances.read(table, "team.toml")
    assert tolerances.EXAMPLE in raised.value.hint


def test_own_policies_come_first() -> None:
    own = tolerances.read({"ours": OURS, "torch": OURS}, "team.toml")
    assert tolerances.find("ours", own).tolerance("float32").rtol == 1e-3
    assert tolerances.find("torch", own).tolerance("float32").rtol == 1e-3
    assert tolerances.find("torch", ()).tolerance("complex64").rtol == 1.3e-6
    with pytest.raises(OperatorError, match="says nothing about float16"):
        tolerances.find("ours", own).tolerance("float16")
    with pytest.raises(OperatorError, match="'theirs' is not known") as raised:
        tolerances.find("theirs", own)
    assert "[tolerances.theirs]" in raised.value.hint
    assert "ours" in raised.value.hint


def test_the_nearer_file_wins_policy_by_policy() -> None:
    one = tolerances.read({"ours": OURS, "mine": OURS}, "user.toml")
    other = tolerances.read({"ours": {"float32": {"rtol": 0.5, "atol": 0.0}}}, "team.toml")
    both = {policy.name: policy.dtypes["float32"].rtol for policy in tolerances.merged(one, other)}
    assert both == {"ours": 0.5, "mine": 1e-3}


def test_what_shows_a_verdict_again_names_the_policy() -> None:
    words = check_command("k.py", OperatorRef(path="/op.py", tolerance="ours"), "cpu", None)
    assert words.endswith("--tolerance ours")


def test_the_command_line_overrules_the_file_and_verdicts_stay_apart(tmp_path: Path) -> None:
    path = str(write(tmp_path, TEXT.format(options="tolerance='kernelbench',")))
    own = tolerances.read({"ours": OURS}, "team.toml")
    by_file = load(OperatorRef(path=path))
    by_flag = load(OperatorRef(path=path, tolerance="ours", policies=own))
    assert by_file.policy is not None
    assert by_flag.policy is not None
    assert (by_file.policy.name, by_flag.policy.name) == ("kernelbench", "ours")
    assert by_file.info.digest != by_flag.info.digest
    assert by_flag.info.notes == (
        "held to the tolerance policy ours (float32: rtol 0.001, atol 0) instead of the measured bound",
    )
    with pytest.raises(OperatorError, match=r"op\.py: the tolerance policy 'theirs' is not known"):
        load(OperatorRef(path=path, tolerance="theirs"))

"""The baseline process: times the user's own code, says what cannot run, and its death is infrastructure."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.clock import rivals as module
from kernelsmith.evaluate.clock.rivals import Rivals
from kernelsmith.model import OperatorRef
from kernelsmith.sandbox import usage

OPERATOR = """
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)

def today(x):
    raise RuntimeError("today's kernel is broken")

@operator(
    x=tensor(N),
    workloads=[workload(N=64), workload(N=1 << 18)],
    mutates=("x",),
    baseline=today,
)
def double_(x: torch.Tensor) -> torch.Tensor:
    assert (x.abs() < 100).all(), "inputs are not fresh"
    return x.mul_(2)
"""


@pytest.fixture(scope="module")
def operator(tmp_path_factory) -> OperatorRef:
    path = tmp_path_factory.mktemp("operator") / "op.py"
    path.write_text(OPERATOR)
    return OperatorRef(path=str(path))


@pytest.fixture(scope="module")
def rivals(operator):
    """For all tests here that leave the eager baseline as it is; a process takes seconds to load torch."""
    with closing(Rivals(operator, model_seed=1, threads=1)) as opened:
        yield opened


def test_eager_is_timed_on_fresh_inputs_and_a_broken_baseline_says_why(rivals):
    assert rivals.build("eager", 0, [1, 2])
    assert rivals.build("eager", 1, [1, 2])
    assert all(rivals.clock("eager", workload, pool, 1 << 20) > 0 for workload in (0, 1) for pool in (0, 1, 0, 1, 0))
    assert not rivals.build("baseline", 0, [1, 2])
    assert "today's kernel is broken" in rivals.unavailable["baseline"]


LATER = OPERATOR.replace(
    """    raise RuntimeError("today's kernel is broken")
""",
    """    calls.append(x)
    if len(calls) > 5:
        raise RuntimeError("today's kernel breaks later")
    return x.mul_(2)
""",
).replace("def today", "calls = []\n\ndef today")


def test_a_baseline_that_raises_while_it_is_timed_is_unavailable_and_says_why(tmp_path):
    path = tmp_path / "op.py"
    path.write_text(LATER)
    with closing(Rivals(OperatorRef(path=str(path)), model_seed=1, threads=1)) as rivals:
        assert rivals.build("baseline", 0, [1]) and rivals.build("eager", 0, [1])
        assert rivals.clock("baseline", 0, 0, 1 << 20) is not None
        assert rivals.clock("baseline", 0, 0, 1 << 20) is None
        assert rivals.unavailable == {"baseline": "baseline: RuntimeError: today's kernel breaks later"}
        assert not rivals.build("baseline", 0, [1])
        assert rivals.clock("eager", 0, 0, 1 << 20) is not None, "the others go on in the same process"


def test_an_operator_that_cannot_make_inputs_in_the_baseline_process_says_why(operator):
    with closing(Rivals(operator, model_seed=1, threads=1)) as rivals:
        assert not rivals.build("eager", 7, [1]), "there is no workload 7"
        assert "IndexError" in rivals.unavailable["eager"]


def test_a_dead_process_is_infrastructure_and_the_next_question_starts_another(rivals):
    assert rivals.build("eager", 0, [1])
    process = rivals._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(InfrastructureError, match="failed at clock"):
        rivals.clock("eager", 0, 0, 1 << 20)
    assert rivals.build("eager", 0, [1])
    assert rivals.clock("eager", 0, 0, 1 << 20) > 0


def test_lifting_starts_no_other_process(operator):
    with closing(Rivals(operator, model_seed=1, threads=1)) as rivals:
        rivals.lift()
        assert rivals._process is not None and usage.descendants(rivals._process.pid) == []


def test_a_baseline_that_is_not_ready_in_time_is_unavailable_and_no_seeds_are_no_error(rivals, monkeypatch):
    assert rivals.build("eager", 0, [1])
    monkeypatch.setattr(module, "BUILD_SECONDS", 0.0)
    assert not rivals.build("compile", 0, [1])
    assert "not ready within" in rivals.unavailable["compile"]
    assert rivals.lift() == ()

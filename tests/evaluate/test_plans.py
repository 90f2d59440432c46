"""What a plan shows: whose memory it returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.evaluate.check.plans import lent, settled
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.inputs import materialise
from kernelsmith.evaluate.truth.oracle import Truth, truth
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import load
from kernelsmith.outcome import Outcome
from kernelsmith.plan import InputBuffer, LaunchPlan, ScratchBuffer, StateBuffer, View

OPERATOR = """
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 64)

@operator(x=tensor(N), workloads=[workload(N=8)])
def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return ({answer})
"""
INPUT, SCRATCH, KEPT, WHOLE = range(4)
BUFFERS = (
    InputBuffer(index=0, nbytes=32),
    ScratchBuffer(nbytes=64),
    StateBuffer(index=0, nbytes=64),
    StateBuffer(index=1, nbytes=64, content="0" * 64),
)


def part(buffer: int, offset: int = 0, stride: int = 1) -> View:
    return View(buffer=buffer, dtype="float32", shape=(8,), strides=(stride,), offset=offset)


def owed(folder: Path, answer: str) -> Truth:
    path = folder / "two.py"
    path.write_text(OPERATOR.format(answer=answer))
    loaded = load(OperatorRef(path=str(path)), model_seed=1)
    return truth(loaded, materialise(loaded, workload_cases(loaded)[0], 7), draws=2)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ((part(SCRATCH), part(SCRATCH, 8)), None),
        ((part(SCRATCH, 0, 2), part(SCRATCH, 1, 2)), None),  # every other element each
        ((part(WHOLE), part(SCRATCH)), None),  # kept, and the same for ever
        ((part(INPUT), part(SCRATCH)), "output 0 lies in the memory of an argument"),
        ((part(SCRATCH), part(KEPT)), "output 1 lies in memory that is kept"),
        ((part(SCRATCH), part(SCRATCH, 7)), "output 0 and output 1 share memory"),
    ],
)
def test_an_output_has_memory_of_its_own_where_the_references_has(
    tmp_path: Path, outputs: tuple[View, View], words: str | None
) -> None:
    plan = LaunchPlan.model_construct(buffers=BUFFERS, kernels=(), steps=(), outputs=outputs)
    finding = lent(plan, owed(tmp_path, "x * 2, x + 1"))
    assert (finding is None) is (words is None)
    assert finding is None or (finding.outcome is Outcome.NOT_IN_PLAN and words is not None)
    assert finding is None or finding.message.startswith(str(words))


@pytest.mark.parametrize("answer", ["x, x", "(x * 2,) * 2", "(x * 2).view(1, 8).expand(2, 8).unbind()"])
def test_what_shares_memory_in_the_reference_may(tmp_path: Path, answer: str) -> None:
    plan = LaunchPlan.model_construct(buffers=BUFFERS, kernels=(), steps=(), outputs=(part(INPUT), part(INPUT)))
    assert lent(plan, owed(tmp_path, answer)) is None


def kept(content: str | None, *, nbytes: int = 64) -> LaunchPlan:
    return LaunchPlan(buffers=(StateBuffer(index=0, nbytes=nbytes, content=content),), kernels=(), steps=(), outputs=())


def test_calls_that_find_the_same_share_a_plan() -> None:
    assert settled([kept("a"), kept("a")]) == kept("a")
    assert settled([kept("a"), kept("a", nbytes=32)]) is None


def test_a_workspace_that_a_call_left_as_it_was_by_chance_is_still_one_on_which_nothing_depends() -> None:
    assert settled([kept(None), kept("a"), kept(None)]) == kept(None)
    assert settled([kept("a"), kept("b")]) == kept(None)

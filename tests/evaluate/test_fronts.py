"""Candidates for Ascend, recorded by triton-ascend's own front end; skipped where its toolchain is not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernelsmith import toolchains
from kernelsmith.compiled import Chip
from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate import absent
from kernelsmith.evaluate import evaluate as judging
from kernelsmith.evaluate.absent import evaluate
from kernelsmith.evaluate.room.fronts import Fronts, own_front
from kernelsmith.evaluate.room.room import PROCESSOR, Room
from kernelsmith.execute import quiet
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.offline import fit
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.plan import Launch
from kernelsmith.sandbox.wire.messages import Choice, Failed
from kernelsmith.targets import load
from tests.sandbox.players import SCALE, Candidate, Packed, loaded

CHIP = Chip(backend="npu", arch="Ascend910B3", warp_size=0)
CUDA = Chip(backend="cuda", arch=90, warp_size=32)
Judged = Callable[..., Evaluation]
OPERATOR = '''
"""Sums of rows."""
import torch
from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 96)

@operator(x=tensor(M, N), workloads=[workload(M=64, N=80)])
def sums(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)
'''
KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def row_sum(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, B)
    v = tl.load(x + row * n + o, mask=o < n, care_padding=False)
    tl.store(y + row, tl.sum(KEPT, 0))

def sums(x):
    y = torch.empty(x.shape[0])
    row_sum[(x.shape[0],)](x, y, x.shape[1], B=96)
    return y
"""


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    if toolchains.importable(load("ascend-910b3")) is None:
        pytest.skip("no toolchain for Ascend: kernelsmith targets install ascend-910b3")
    with closing(Room(PROCESSOR)) as opened:
        assert opened.zygote and opened.recording(CHIP), "started here, where the person's toolchains are known"
        yield opened


@pytest.fixture
def candidate(room: Room) -> Iterator[Candidate]:
    with Candidate(room.recording(CHIP)) as candidate:
        yield candidate


@pytest.fixture
def judged(room: Room, tmp_path: Path, persons_config: None) -> Judged:
    path = tmp_path / "sums.py"
    path.write_text(OPERATOR)

    def verdict(source: str, *also: Chip, here: bool = False) -> Evaluation:
        ref = OperatorRef(path=str(path))
        quick = {"located": False, "check_seconds": 1.0, "bench": False, "also": also}
        job = Job(operator=ref, target="ascend-910b3", source=source, seed=5, without_device=not here, **quick)
        return evaluate(job, room, quiet) if not here else judging.evaluate(job, room)

    return verdict


def test_targets_without_a_front_end_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_front(load("nvidia-h100")) is None and own_front(load("ascend-910b3")) is None, "not installed"
    with pytest.raises(InfrastructureError, match="no front end for npu Ascend910B3 here"):
        Fronts(lambda *_: pytest.fail("started"), lambda: [load("ascend-910b3")]).of(CHIP)


@pytest.mark.parametrize("own", [False, True])
def test_whose_front_end_it_was_is_said_where_it_was_not_the_chips(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Job] = []

    def passed(job: Job, *_: object) -> Evaluation:
        jobs.append(job)
        return Evaluation(outcome=Outcome.PASSED, stage=Stage.CHECK)

    monkeypatch.setattr(judging, "evaluate", passed)
    monkeypatch.setattr(fit, "chip_of", lambda target: CHIP)
    monkeypatch.setattr(absent, "own_front", lambda target: Path() if own else None)
    room = SimpleNamespace(described=load, target=load("cpu"))
    job = Job(operator=OperatorRef(path="sums.py"), target="ascend-910b3", source="", seed=5, without_device=True)
    notes = evaluate(job, room, quiet).notes  # type: ignore[arg-type]
    assert jobs[0].front == (CHIP if own else None)
    assert any(note.startswith("lowered by upstream Triton's front end") for note in notes) is not own


def test_it_is_confined_as_all_are_and_the_judge_imports_nothing_of_it(room: Room) -> None:
    assert room.recording(CHIP).layers == room.zygote.layers
    assert not any("ascend" in name for name in sys.modules if name.split(".")[0] == "triton")


def test_what_upstream_refuses_is_recorded_and_runs(candidate: Candidate) -> None:
    source = SCALE.replace("mask=o < n) * s", "mask=o < n, care_padding=False) * s").replace("64", "96")
    loaded(candidate, source + "def op(x):\n    return scaled(x, torch.empty_like(x), 2.5)\n")
    x = torch.randn(1000)
    plan, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs, [x * 2.5])
    (launch,), (kernel,) = plan.steps, plan.kernels
    assert isinstance(launch, Launch) and launch.grid == (11, 1, 1)
    assert "tensor<96xf32>" in kernel.ttir and kernel.signature == ("*fp32", "*fp32", "i32", "fp32")


def test_constants_of_the_kernel_are_no_arguments(candidate: Candidate) -> None:
    source = """
@triton.jit
def k(x, y, none, one, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o * one, tl.load(x + o, mask=o < n) + 1, mask=o < n)

def op(x, bias):
    y = torch.empty_like(x)
    k[(1,)](x, y, bias, y.stride(0), 10, B=12)
    return y
"""
    loaded(candidate, source)
    x = torch.randn(10)
    plan, outputs = candidate.called(Packed((x, None)))
    torch.testing.assert_close(outputs, [x + 1])
    (launch,) = plan.steps
    assert isinstance(launch, Launch) and [a.kind for a in launch.arguments] == ["pointer", "pointer", "scalar"]


def test_configurations_are_the_judges_to_choose(candidate: Candidate) -> None:
    source = """
@triton.autotune([triton.Config({"B": 96}), triton.Config({"B": 160}, multibuffer=False)], key=["n"])
@triton.jit
def k(x, y, n, B: tl.constexpr):
    for b in range(tl.program_id(0), tl.cdiv(n, B), tl.num_programs(0)):
        o = b * B + tl.arange(0, B)
        tl.store(y + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)

def op(x):
    y = torch.empty_like(x)
    k[(3,)](x, y, x.numel())
    return y
"""
    answer = loaded(candidate, source)
    (tunable,) = answer.tunables
    assert tunable.configs == (
        "{'B': 96}, num_warps=4, num_stages=2",
        "{'B': 160}, num_warps=4, num_stages=2, multibuffer=False",
    )
    x = torch.randn(1000)
    for index, options in ((0, {"multibuffer": True}), (1, {"multibuffer": False})):
        plan, outputs = candidate.called(Packed((x,)), Choice(kernel="k", config=index))
        torch.testing.assert_close(outputs, [x * 2])
        (kernel,) = plan.kernels
        assert f"tensor<{(96, 160)[index]}xf32>" in kernel.ttir and options.items() <= kernel.options.items()


def test_what_its_language_lacks_is_an_error_at_its_line(candidate: Candidate) -> None:
    source = SCALE.replace("mask=o < n) * s", "mask=o < n, no_such=1) * s")
    loaded(candidate, source + "def op(x):\n    return scaled(x, x, 2.0)\n")
    reply = candidate.call(Packed((torch.zeros(8),)))
    assert isinstance(reply, Failed) and reply.outcome is Outcome.COMPILE_ERROR
    assert reply.line == 6 and "no_such" in reply.message and "(line 6)" in reply.message


def test_what_its_passes_refuse_is_told_in_their_words(candidate: Candidate) -> None:
    source = SCALE.replace("tl.store(y", "tl.atomic_cas(x + o, 0, 1)\n    tl.store(y")
    loaded(candidate, source + "def op(x):\n    return scaled(x, x, 2)\n")
    reply = candidate.call(Packed((torch.zeros(8, dtype=torch.int32),)))
    assert isinstance(reply, Failed) and reply.outcome is Outcome.COMPILE_ERROR
    assert "line 6: 'tt.atomic_cas' op" in reply.message and "same shape" in reply.message


def test_proven_as_the_chip_s_front_end_made_it_and_fitted(judged: Judged) -> None:
    found = judged(KERNEL.replace("KEPT", "tl.where(o < n, v, 0.0)"), CUDA)
    assert found.outcome is Outcome.PASSED, found.message
    build, refused = found.builds
    assert build.chip == CHIP and build.resources is not None
    assert build.resources.unified_buffer_bytes is not None and build.resources.unified_buffer_bytes >= 4 * 96
    assert (refused.chip, refused.outcome) == (CUDA, Outcome.COMPILE_ERROR), "upstream's front end, at its line"
    assert refused.message.startswith("upstream Triton refuses it: ")
    assert "arange's range must be a power of 2 (line 9)" in refused.message


def test_beside_another_target_the_chip_is_lowered_by_its_own(judged: Judged) -> None:
    upstream = KERNEL.replace("KEPT", "v").replace("care_padding=False", "other=0.0").replace("B=96", "B=128")
    found = judged(upstream, CHIP, here=True)
    assert found.outcome is Outcome.PASSED, found.message
    (build,) = found.builds
    assert build.chip == CHIP and build.outcome is Outcome.PASSED
    refused = judged(upstream.replace("tl.sum(v, 0)", "tl.sum(tl.squeeze(v[None, :], 0), 0)"), CHIP, here=True)
    assert refused.outcome is Outcome.PASSED, refused.message
    (build,) = refused.builds
    assert build.outcome is Outcome.COMPILE_ERROR and "squeeze" in build.message
    assert build.message.startswith("the front end of npu Ascend910B3 refuses it: ")


def test_other_chips_get_it_from_upstreams_front_end(judged: Judged) -> None:
    plain = (
        KERNEL.replace("KEPT", "tl.where(o < n, v, 0.0)").replace(", care_padding=False", "").replace("B=96", "B=128")
    )
    found = judged(plain, CUDA)
    assert found.outcome is Outcome.PASSED, found.message
    own, cuda = found.builds
    assert (own.chip, cuda.chip) == (CHIP, CUDA)
    assert cuda.outcome is Outcome.PASSED and cuda.resources is not None and cuda.resources.registers
    assert len(found.estimates) == 1, "of the target alone"


def test_lanes_that_nobody_cares_for_hold_anything(judged: Judged) -> None:
    found = judged(KERNEL.replace("KEPT", "v"))
    assert found.outcome in (Outcome.UNINITIALIZED_READ, Outcome.WRONG_VALUES), found

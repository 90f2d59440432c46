"""Examining plans with checked builds: in a real confined launcher, and step by step in this process."""

from __future__ import annotations

import pytest
import torch

from kernelsmith.devices.cpu import CpuDevice
from kernelsmith.faults import Fault, FaultKind, Schedule
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Copy, Fill, LaunchPlan, View
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.replay.examine import Examination
from kernelsmith.sandbox.replay.replay import Workspace
from kernelsmith.sandbox.wire.messages import HOST, Examine, Examined, Failed, Replay
from tests.sandbox.players import Candidate, Packed, Replayer, loaded
from tests.sandbox.test_launcher import add, plan, view

SHIFTED = """
@triton.jit
def shift(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o + 1, mask=o < n), mask=o < n)

def op(x):
    y = torch.empty_like(x)
    shift[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), B=32)
    return y
"""
CHAIN = """
@triton.jit
def wait(flags, y, B: tl.constexpr):
    p = tl.program_id(0)
    if p > 0:
        while tl.atomic_add(flags + p - 1, 0) == 0:
            pass
    tl.atomic_xchg(flags + p, 1)
    tl.store(y + p, 1.0)

def op(x):
    flags = torch.zeros(x.shape, dtype=torch.int32)
    y = torch.empty_like(x)
    wait[(x.numel(),)](flags, y, B=1)
    return y
"""
POSITIVE = """
@triton.jit(debug=True)
def root(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o, mask=o < n, other=1.0)
    tl.device_assert(v > 0, "only positive values have a root")
    tl.store(y + o, tl.sqrt(v), mask=o < n)

def op(x):
    y = torch.empty_like(x)
    root[(1,)](x, y, x.numel(), B=16)
    return y
"""


@pytest.fixture(scope="module")
def recorded(roles: Zygote) -> dict[str, LaunchPlan]:
    plans = {}
    for source in (SHIFTED, CHAIN, POSITIVE):
        with Candidate(roles) as candidate:
            loaded(candidate, source)
            plans[source], _ = candidate.called(Packed((torch.ones(8),)))
    return plans


def examined(launcher: Replayer, plan_id: int, packed: Packed, schedule: Schedule) -> tuple[Fault, ...]:
    reply = launcher.ask(Examine(plan_id=plan_id, inputs=packed.regions, schedule=schedule), (packed.arena.fd,))
    assert isinstance(reply, Examined), reply
    return reply.faults


def test_a_launcher_names_kernel_line_tensor_and_index(launcher: Replayer, recorded: dict[str, LaunchPlan]) -> None:
    packed = Packed((torch.ones(8),))
    (fault,) = examined(launcher, launcher.prepared(recorded[SHIFTED]), packed, Schedule.PARALLEL)
    assert (fault.kind, fault.kernel, fault.tensor) == (FaultKind.OUT_OF_BOUNDS, "shift", "x")
    assert (fault.program, fault.lane, fault.index, fault.count) == ((0, 0, 0), (7,), (8,), 1)
    assert fault.location is not None and fault.location.endswith("candidate.py:6")
    assert torch.equal(packed.tensor(0), torch.ones(8)), "the inputs are left alone"


def test_the_order_of_programs_is_the_judge_s_to_say(launcher: Replayer, recorded: dict[str, LaunchPlan]) -> None:
    packed, plan_id = Packed((torch.ones(8),)), launcher.prepared(recorded[CHAIN])
    assert examined(launcher, plan_id, packed, Schedule.PARALLEL) == ()
    assert [f.kind for f in examined(launcher, plan_id, packed, Schedule.REVERSED)] == [FaultKind.DEADLOCK]


def test_a_failed_assertion_ends_a_plain_replay(launcher: Replayer, recorded: dict[str, LaunchPlan]) -> None:
    plan_id = launcher.prepared(recorded[POSITIVE])
    _, outputs = launcher.replay(plan_id, Packed((torch.full((8,), 4.0),)))
    assert torch.equal(outputs[0], torch.full((8,), 2.0))
    packed = Packed((torch.tensor([1.0, -1.0] * 4),))
    reply = launcher.ask(Replay(plan_id=plan_id, inputs=packed.regions), (packed.arena.fd, launcher.out.fd))
    assert isinstance(reply, Failed) and reply.outcome is Outcome.RUNTIME_ERROR
    assert "only positive values have a root" in reply.message


# ---------------------------------------------------------------- what is written, step by step


def found(steps: LaunchPlan) -> list[Fault]:
    """The faults of a plan whose one input is eight floats; kernel `add` reads x[0:8] and writes y[0:8]."""
    device = CpuDevice()
    workspace = Workspace(steps, [device.compile(kernel) for kernel in steps.kernels], [], device)
    ones = torch.ones(8).view(torch.uint8)
    return list(Examination(workspace, device.compile_checked).run([ones], schedule=Schedule.PARALLEL, seed=0))


def whole(x: int, y: int) -> object:
    step = add(x, y)
    arguments = (step.arguments[0], step.arguments[1].model_copy(update={"view": view(y)}), step.arguments[2])
    return step.model_copy(update={"arguments": arguments})


def test_inputs_and_what_was_filled_are_written() -> None:
    filled = plan(Fill(out=view(1), value="0.0"), whole(1, 2), outputs=(view(2),))
    assert found(filled) == []
    assert found(plan(whole(0, 1), outputs=(view(1),))) == []


def test_fresh_memory_is_not() -> None:
    (fault,) = found(plan(whole(1, 2), outputs=(view(2),)))
    assert (fault.kind, fault.tensor, fault.index) == (FaultKind.UNWRITTEN, "x", (0,))


def test_a_copy_of_what_nobody_wrote_is_a_fault_for_who_reads_it() -> None:
    half = view(1, 4)
    begun = (Fill(out=half, value="1.0"), Copy(out=view(2), source=view(1)))
    assert found(plan(*begun, outputs=(view(2, 4),))) == []
    (fault,) = found(plan(*begun, whole(2, 0)))
    assert (fault.kind, fault.tensor, fault.index) == (FaultKind.UNWRITTEN, "x", (4,))


def test_a_copy_broadcasts_and_casts_what_is_known() -> None:
    one, wide = view(1, 1), View(buffer=2, dtype="float64", shape=(8,), strides=(1,))
    assert found(plan(Fill(out=one, value="1.0"), Copy(out=wide, source=one), outputs=(wide,))) == []
    (fault,) = found(plan(Copy(out=wide, source=view(1)), outputs=(wide,)))
    assert (fault.kernel, fault.tensor, fault.index) == (HOST, "output 0", (0,))


def test_only_the_first_step_at_fault_is_reported() -> None:
    (fault,) = found(plan(whole(1, 2), whole(1, 2)))
    assert fault.count == 8


def test_what_lies_beside_a_view_is_out_of_bounds() -> None:
    (fault,) = found(plan(add(0, 1)))
    assert (fault.kind, fault.tensor, fault.index) == (FaultKind.OUT_OF_BOUNDS, "y", (1,))


def test_a_pointer_that_is_given_as_an_address_reaches_its_buffer() -> None:
    rest = View(buffer=1, dtype="uint8", shape=(32,), strides=(1,))
    step = add(0, 1)
    arguments = (step.arguments[0], step.arguments[1].model_copy(update={"view": rest}), step.arguments[2])
    assert found(plan(step.model_copy(update={"arguments": arguments}))) == []

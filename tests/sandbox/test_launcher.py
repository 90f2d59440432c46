"""Replaying plans in real confined children: equal to the real call, bounded, and honest about what it finds."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Sequence

import pytest
import torch

from kernelsmith.base import digest
from kernelsmith.devices import DeviceFaultError
from kernelsmith.errors import InfrastructureError
from kernelsmith.outcome import Outcome
from kernelsmith.plan import (
    MAX_ELEMENTS,
    ConstantBuffer,
    Copy,
    Fill,
    InputBuffer,
    Kernel,
    Launch,
    LaunchPlan,
    NullArgument,
    PointerArgument,
    Relocation,
    ScalarArgument,
    ScratchBuffer,
    StateBuffer,
    View,
)
from kernelsmith.sandbox.children.zygote import ChildEnded, Zygote
from kernelsmith.sandbox.limits import Ending
from kernelsmith.sandbox.replay.launcher import Launcher
from kernelsmith.sandbox.replay.replay import layout
from kernelsmith.sandbox.wire.arguments import Region
from kernelsmith.sandbox.wire.exchange import LauncherReply
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import (
    Arrange,
    Broken,
    Done,
    Failed,
    Forget,
    Loaded,
    Order,
    Prepare,
    Replay,
    Run,
)
from tests.sandbox.players import Candidate, Packed, Replayer, flat, loaded

ADD = """module {
  tt.func public @add(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %s: f32) {
    %range = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %range : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    %v = tt.load %xp : tensor<8x!tt.ptr<f32>>
    %ss = tt.splat %s : f32 -> tensor<8xf32>
    %sum = arith.addf %v, %ss : tensor<8xf32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %range : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    tt.store %yp, %sum : tensor<8x!tt.ptr<f32>>
    tt.return
  }
}
"""
KERNEL = Kernel(name="add", ttir=ADD, signature=("*fp32", "*fp32", "fp32"))


def view(buffer: int, n: int = 8, offset: int = 0, dtype: str = "float32") -> View:
    return View(buffer=buffer, dtype=dtype, shape=(n,), strides=(1,), offset=offset)


def add(x: int, y: int, s: str = "1.0", *, y_offset: int = 0) -> Launch:
    pointers = PointerArgument(view=view(x)), PointerArgument(view=view(y, 1, y_offset))
    return Launch(kernel=0, grid=(1, 1, 1), arguments=(*pointers, ScalarArgument(value=s)))


def plan(*steps: Fill | Copy | Launch, outputs: tuple[View, ...] = (), **more: object) -> LaunchPlan:
    buffers = (InputBuffer(index=0, nbytes=32), ScratchBuffer(nbytes=32), ScratchBuffer(nbytes=64))
    fields = {"buffers": buffers, "kernels": (KERNEL,), "steps": steps, "outputs": outputs}
    return LaunchPlan.model_validate(fields | more)


def refusal(launcher: Replayer, wrong: LaunchPlan, state: Arena | None = None) -> Failed:
    reply = launcher.prepare(wrong, state)
    assert isinstance(reply, Failed), reply
    return reply


# ---------------------------------------------------------------- from recording to replay

SOFTMAX = """
@triton.jit
def softmax(x, y, columns, stride, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, B)
    v = tl.load(x + row * stride + o, mask=o < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + o, e / tl.sum(e, 0), mask=o < columns)

def op(x):
    y = torch.empty(x.shape)
    softmax[(x.shape[0],)](x, y, x.shape[1], x.stride(0), B=triton.next_power_of_2(x.shape[1]))
    return y
"""
WORKSPACE = """
@triton.jit
def partial(x, w, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(w, tl.sum(tl.load(x + o, mask=o < n, other=0.0), 0))

def op(x):
    w = torch.zeros(1, dtype=torch.float32)
    p = torch.cat([torch.nn.functional.pad(x, (1, 2), value=0.5), x.to(torch.bfloat16).float()])
    partial[(triton.cdiv(p.numel(), 32),)](p, w, p.numel(), B=32)
    return w.squeeze(0), p[1:]
"""
MODEL = """
@triton.jit
def scale(x, w, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) * tl.load(w + o, mask=o < n), mask=o < n)

class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n))
    def forward(self, x):
        y = torch.empty_like(x)
        scale[(1,)](x, self.weight, y, x.numel(), B=16)
        return y
"""
IN_PLACE = """
@triton.jit
def negate(x, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(x + o, -tl.load(x + o, mask=o < n), mask=o < n)

def op(x):
    negate[(1,)](x, x.numel(), B=128)
    return x
"""
DESCRIPTOR = """
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def k(pair, d, y, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(pair[0] + o, mask=o < 10) * pair[1] + d.load([0]), mask=o < 10)

def op(x):
    y = torch.empty_like(x)
    k[(1,)]((x, 3.0), TensorDescriptor(x, [10], [1], [16]), y, B=16)
    return y
"""
CASES = {"descriptor": DESCRIPTOR, "softmax": SOFTMAX, "workspace": WORKSPACE, "model": MODEL, "in place": IN_PLACE}


@pytest.mark.parametrize("case", CASES)
def test_a_replay_on_fresh_inputs_equals_the_real_call(roles: Zygote, launcher: Replayer, case: str) -> None:
    is_class = case == "model"
    entry = "ModelNew" if is_class else "op"
    shape = (5, 40) if case == "softmax" else (10,)
    with Candidate(roles) as candidate:
        loaded = candidate.load(CASES[case], entry=entry, is_class=is_class, init=(10,) if is_class else ())
        assert isinstance(loaded, Loaded)
        recorded, _ = candidate.called(Packed((torch.randn(shape),)))
        plan_id = launcher.prepared(recorded, candidate.state(recorded))
        for _ in range(2):
            x = torch.randn(shape)
            real, replay = Packed((x,)), Packed((x,))
            _, expected = candidate.called(real)
            reply, outputs = launcher.replay(plan_id, replay)
            torch.testing.assert_close(outputs, expected, rtol=0, atol=0)
            assert torch.equal(replay.tensor(0), real.tensor(0))
            assert (reply.state_intact, reply.overrun) == (True, ())


def test_strides_and_offsets_reach_the_replay(roles: Zygote, launcher: Replayer) -> None:
    base = torch.randn(6, 64)
    with Candidate(roles) as candidate:
        candidate.load(SOFTMAX)
        packed = Packed((base[1:, 3:40],))
        recorded, expected = candidate.called(packed)
        reply, outputs = launcher.replay(launcher.prepared(recorded), packed)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=0)
    torch.testing.assert_close(outputs[0], torch.softmax(base[1:, 3:40], 1))
    assert reply.outputs[0].strides == (37, 1)


def test_empty_tensors_go_all_the_way(roles: Zygote, launcher: Replayer) -> None:
    source = IN_PLACE.replace("return x", "return x, torch.cat([x, x]), torch.zeros(0, 3)")
    with Candidate(roles) as candidate:
        candidate.load(source)
        packed = Packed((torch.empty(0),))
        recorded, expected = candidate.called(packed)
        _, outputs = launcher.replay(launcher.prepared(recorded), packed)
    assert [tuple(t.shape) for t in outputs] == [tuple(t.shape) for t in expected] == [(0,), (0,), (0, 3)]


# ---------------------------------------------------------------- steps


def test_fills_copies_and_launches_in_order(launcher: Replayer) -> None:
    p = plan(
        Fill(out=view(2, 16), value="-inf"),
        add(0, 1, "0.5"),
        Copy(out=view(2, 8, 8), source=view(1)),
        Fill(out=view(2, 1), value="nan"),
        Copy(out=view(1, 4, 0, "int64"), source=view(0, 4)),
        outputs=(view(2, 16), view(1, 4, 0, "int64")),
    )
    x = torch.arange(8).float()
    _, (wide, cast) = launcher.replay(launcher.prepared(p), Packed((x,)))
    expected = torch.cat([torch.full((8,), -torch.inf), x + 0.5])
    expected[0] = torch.nan
    torch.testing.assert_close(wide, expected, equal_nan=True)
    assert cast.tolist() == [0, 1, 2, 3]


CHAIN = """
@triton.jit
def chain(x, y, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(y + p, tl.load(x + p) + tl.load(y + p - 1, mask=p > 0, other=0.0))

def op(x):
    y = torch.zeros_like(x)
    chain[(x.numel(),)](x, y, B=1)
    return y
"""
LAST = """
@triton.jit
def last(x, y, B: tl.constexpr):
    p = tl.program_id(0)
    tl.atomic_xchg(y, tl.load(x + p))
    tl.store(y + 1 + p, tl.load(y))

def op(x):
    y = torch.zeros(x.numel() + 1)
    last[(x.numel(),)](x, y, B=1)
    return y
"""
ORDERED = {
    (CHAIN, Order.BACKWARDS): [1, 2, 3, 4],
    (CHAIN, Order.APART): [1, 2, 3, 4],
    (LAST, Order.BACKWARDS): [1, 1, 2, 3, 4],
    (LAST, Order.APART): [1, 1, 2, 3, 4],
    (SOFTMAX, Order.APART): None,
    (SOFTMAX, Order.BACKWARDS): None,
}


@pytest.mark.parametrize(("source", "order"), ORDERED)
def test_programs_run_in_the_order_asked_for(roles: Zygote, launcher: Replayer, source: str, order: Order) -> None:
    x = torch.arange(1.0, 5.0)
    x = x if source is not SOFTMAX else x.expand(3, 4).contiguous()
    with Candidate(roles) as candidate:
        loaded(candidate, source)
        recorded, real = candidate.called(Packed((x,)))
    _, (y,) = launcher.replay(launcher.prepared(recorded), Packed((x,)), order=order)
    expected = ORDERED[source, order]
    assert y.tolist() == (real[0].tolist() if expected is None else expected)


def test_what_nobody_wrote_is_poison(launcher: Replayer) -> None:
    plan_id = launcher.prepared(plan(add(0, 1), outputs=(view(1), view(2, 16))))
    packed = Packed((torch.zeros(8),))
    for poison in (0xFF, 0x7B):
        _, (written, left) = launcher.replay(plan_id, packed, poison)
        assert written.tolist() == [1.0] * 8
        assert set(flat(left).tolist()) == {poison}


def test_addresses_in_a_constant_point_into_the_replay(launcher: Replayer) -> None:
    table = ConstantBuffer(data="11" * 8 + "00" * 8, relocations=(Relocation(at=8, buffer=0, offset=4),))
    p = plan(outputs=(view(1, 2, 0, "int64"),), buffers=(InputBuffer(index=0, nbytes=32), table))
    plan_id = launcher.prepared(p)
    packed = Packed((torch.zeros(8),))
    _, (first,) = launcher.replay(plan_id, packed)
    _, (second,) = launcher.replay(plan_id, packed)
    assert first.tolist() == second.tolist()
    assert first[0].item() == 0x1111111111111111
    assert first[1].item() % 64 == 4


def test_writes_beside_a_buffer_are_found(launcher: Replayer) -> None:
    plan_id = launcher.prepared(plan(add(0, 1, y_offset=7), outputs=(view(1),)))
    packed = Packed((torch.zeros(8),))
    for _ in range(2):
        reply, _ = launcher.replay(plan_id, packed)
        assert reply.overrun == (1,)
    clean = launcher.prepared(plan(add(0, 1), outputs=(view(1),)))
    assert launcher.replay(clean, packed)[0].overrun == ()


def test_state_that_changes_is_reported_and_restored(launcher: Replayer) -> None:
    content = torch.arange(8).float().numpy().tobytes()
    state = Arena.create(32)
    state.buffer[:32] = content
    kept = StateBuffer(index=0, nbytes=32, content=digest(content))
    buffers = (InputBuffer(index=0, nbytes=32), kept, ScratchBuffer(nbytes=32))
    p = plan(Copy(out=view(2), source=view(1)), add(0, 1), outputs=(view(2),), buffers=buffers)
    plan_id = launcher.prepared(p, state)
    for _ in range(2):
        reply, (before,) = launcher.replay(plan_id, Packed((torch.ones(8),)))
        assert not reply.state_intact
        assert before.tolist() == list(range(8))


def test_state_must_be_what_the_plan_says(launcher: Replayer) -> None:
    kept = StateBuffer(index=0, nbytes=32, content="0" * 16)
    p = plan(outputs=(view(0),), buffers=(kept,), kernels=())
    assert refusal(launcher, p, Arena.create(32)).outcome is Outcome.NOT_IN_PLAN


# ---------------------------------------------------------------- hostile plans


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((ScalarArgument(value=4096), PointerArgument(view=view(1)), ScalarArgument(value="1.0")), "number 4096"),
        ((PointerArgument(view=view(0)),) * 3, "address is given for a parameter of type f32"),
        ((PointerArgument(view=view(0)), PointerArgument(view=view(1)), NullArgument()), "type f32"),
        (
            (PointerArgument(view=view(0)), PointerArgument(view=view(1, 0, 1000)), ScalarArgument(value="1.0")),
            "empty view",
        ),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(launcher: Replayer, arguments: tuple[object, ...], says: str) -> None:
    failed = refusal(launcher, plan(Launch.model_validate({"kernel": 0, "grid": (1, 1, 1), "arguments": arguments})))
    assert failed.outcome is Outcome.NOT_IN_PLAN
    assert says in failed.message


def test_a_signature_that_is_not_the_kernels_is_refused(launcher: Replayer) -> None:
    short = KERNEL.model_copy(update={"signature": ("*fp32",)})
    launch = Launch(kernel=0, grid=(1, 1, 1), arguments=(PointerArgument(view=view(0)),))
    assert "takes 3 arguments and is given 1" in refusal(launcher, plan(launch, kernels=(short,))).message


def test_a_number_that_fits_into_no_argument_is_the_plans_fault(launcher: Replayer) -> None:
    ttir = "module {\n  tt.func public @half(%s: f16) {\n    tt.return\n  }\n}\n"
    half = Kernel(name="half", ttir=ttir, signature=("fp16",))
    launch = Launch(kernel=0, grid=(1, 1, 1), arguments=(ScalarArgument(value=2**63),))
    failed = refusal(launcher, plan(launch, kernels=(half,)))
    assert failed.outcome is Outcome.NOT_IN_PLAN and "too large" in failed.message


@pytest.mark.parametrize(
    "step",
    [
        Copy(out=view(1), source=view(0, 3)),
        Fill(out=view(1, 8, 0, "int8"), value=1000),
        Copy(out=View(buffer=1, dtype="float32", shape=(4,), strides=(0,)), source=view(0, 4)),
    ],
)
def test_steps_that_cannot_be_done_are_the_plans_fault(launcher: Replayer, step: Fill | Copy) -> None:
    plan_id = launcher.prepared(plan(step))
    packed = Packed((torch.zeros(8),))
    request = Replay(plan_id=plan_id, inputs=packed.regions)
    reply = launcher.ask(request, (packed.arena.fd, launcher.out.fd))
    assert isinstance(reply, Failed)
    assert reply.outcome is Outcome.NOT_IN_PLAN
    assert launcher.replay(launcher.prepared(plan(add(0, 1), outputs=(view(1),))), packed)[1][0].tolist() == [1.0] * 8


@pytest.mark.parametrize(
    "ttir",
    ["", "module {", ADD.replace("arith.addf", "arith.frobnicate"), ADD[:300]],
)
def test_text_that_is_no_kernel_does_not_compile(launcher: Replayer, ttir: str) -> None:
    failed = refusal(launcher, plan(add(0, 1), kernels=(KERNEL.model_copy(update={"ttir": ttir}),)))
    assert failed.outcome is Outcome.COMPILE_ERROR
    assert failed.message.startswith("kernel add: ")


def test_damaged_kernels_never_break_the_launcher(launcher: Replayer) -> None:
    """Random damage to TTIR: a refusal or a kernel, and the launcher goes on either way."""
    rng = random.Random(3)
    lines = ADD.splitlines()
    refused = 0
    for _ in range(12):
        damaged = list(lines)
        at = rng.randrange(1, len(lines) - 2)
        damaged[at] = damaged[at].replace(rng.choice("%:=x8f<"), rng.choice(["", "%", "((", "-1", "9999999999"]))
        wrong = plan(add(0, 1), kernels=(KERNEL.model_copy(update={"ttir": "\n".join(damaged)}),))
        reply = launcher.prepare(wrong)
        refused += isinstance(reply, Failed)
    assert refused > 4
    launcher.prepared(plan(add(0, 1)))


def test_more_memory_than_there_is(launcher: Replayer) -> None:
    huge = plan(buffers=(InputBuffer(index=0, nbytes=MAX_ELEMENTS),), kernels=())
    assert refusal(launcher, huge).outcome is Outcome.MEMORY


class OutOfOrder:
    """A device that fails where it is told to."""

    arguments = ("*f32", "*f32", "f32")

    def __init__(self, at_compile: Exception | None = None, at_launch: Exception | None = None) -> None:
        self.at_compile = at_compile
        self.at_launch = at_launch

    def compile(self, kernel: Kernel) -> OutOfOrder:
        if self.at_compile:
            raise self.at_compile
        return self

    def bind(self, grid: tuple[int, int, int], slots: Sequence[int | float], threads: int = 0) -> Callable[[], object]:
        return self.launch

    def bind_each(self, grid: tuple[int, int, int], slots: Sequence[int | float]) -> None:
        return None

    def reserve(self, nbytes: int) -> torch.Tensor:
        return torch.empty(nbytes, dtype=torch.uint8)

    def launch(self) -> None:
        if self.at_launch:
            raise self.at_launch

    def finish(self) -> None:
        raise DeviceFaultError("an illegal memory access was encountered")

    def time(self, steps: Sequence[Callable[[], object]]) -> int:
        raise AssertionError("nothing is timed here")


def replayed(device: OutOfOrder) -> LauncherReply:
    launcher = Launcher(device)
    launcher.answer(Prepare(plan=plan(add(0, 1))).model_dump_json().encode(), ())
    packed = Packed((torch.zeros(8),))
    fds = os.dup(packed.arena.fd), os.dup(packed.arena.fd)
    return launcher.answer(Replay(plan_id=0, inputs=packed.regions).model_dump_json().encode(), fds)


def test_a_broken_machine_is_nobodys_fault() -> None:
    broken = InfrastructureError("no C++ compiler was found", "install one")
    reply = Launcher(OutOfOrder(broken)).answer(Prepare(plan=plan(add(0, 1))).model_dump_json().encode(), ())
    assert reply == Broken(message="no C++ compiler was found", hint="install one")
    reply = replayed(OutOfOrder(at_launch=InfrastructureError("the folder is full", "make room")))
    assert reply == Broken(message="the folder is full", hint="make room")


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (MemoryError("no memory for the kernel's scratch space"), Outcome.MEMORY),
        (ValueError("the grid has more than 2**62 program instances"), Outcome.NOT_IN_PLAN),
        (RuntimeError("the launch after it is told of the fault"), Outcome.RUNTIME_ERROR),
        (None, Outcome.RUNTIME_ERROR),
    ],
    ids=["scratch", "grid", "what the device says to the next launch", "what the device says in the end"],
)
def test_what_a_kernel_does_is_to_blame(fault: Exception | None, outcome: Outcome) -> None:
    reply = replayed(OutOfOrder(at_launch=fault))
    assert isinstance(reply, Failed)
    assert reply.outcome is outcome


def test_inputs_of_another_size_are_refused(launcher: Replayer) -> None:
    plan_id = launcher.prepared(plan(add(0, 1)))
    packed = Packed((torch.zeros(9),))
    reply = launcher.ask(Replay(plan_id=plan_id, inputs=packed.regions), (packed.arena.fd, launcher.out.fd))
    assert isinstance(reply, Failed)
    assert "input 0 of 32 bytes" in reply.message


def test_a_plan_that_was_forgotten_is_no_plan(roles: Zygote) -> None:
    with Replayer(roles) as launcher:
        plan_id = launcher.prepared(plan(add(0, 1)))
        assert isinstance(launcher.ask(Forget(plan_id=plan_id)), Done)
        packed = Packed((torch.zeros(8),))
        with pytest.raises(ChildEnded) as ended:
            launcher.replay(plan_id, packed)
    assert ended.value.exit.ending is Ending.EXITED


# ---------------------------------------------------------------- timing


def test_a_sample_is_timed_and_shows_what_it_left_behind_only_when_asked(launcher: Replayer) -> None:
    plan_id = launcher.prepared(plan(add(0, 0, "1.0"), add(0, 1, "1.0"), outputs=(view(1),)))
    for number in range(4):
        packed = Packed((torch.full((8,), float(number)),))
        sampled = launcher.sample(plan_id, packed)
        assert 0 < sampled.nanoseconds < 10**10
        assert (sampled.state_intact, sampled.overrun) == (True, ())
        assert packed.tensor(0).tolist() == [number] * 8
        if number % 2:
            assert [t.tolist() for t in launcher.keep(plan_id, packed)] == [[number + 2.0] * 8]
            assert packed.tensor(0).tolist() == [number + 1] * 8


def test_nothing_beside_the_buffers_outlives_a_replay(launcher: Replayer) -> None:
    """A kernel that leaves an answer in the bytes behind its buffer, where padding or guards are, finds it gone; and
    what it finds there instead is different each time, so that it cannot tell which replay this is."""
    read = Launch(
        kernel=0,
        grid=(1, 1, 1),
        arguments=(
            PointerArgument(view=view(1, 1, 7)),
            PointerArgument(view=view(2)),
            ScalarArgument(value="0.0"),
        ),
    )
    plan_id = launcher.prepared(plan(read, add(0, 1, y_offset=7), outputs=(view(2),)))
    packed, found = Packed((torch.zeros(8),)), set()
    for _ in range(8):
        assert launcher.sample(plan_id, packed).overrun == (1,)
        (last, *beside) = launcher.keep(plan_id, packed)[0].view(torch.int32).tolist()
        assert last == -1  # poison in the buffer's own last element
        assert len(set(beside)) == 1
        found.add(beside[0])
    assert len(found) > 1


def test_a_plan_runs_where_the_judge_lays_it_out(launcher: Replayer) -> None:
    p = plan(add(0, 0, "1.0"), add(0, 1, "1.0"), outputs=(view(1),))
    plan_id = launcher.prepared(p)
    starts, nbytes = layout(p.buffers)
    copies = tuple(Region(offset=i * 8192, nbytes=nbytes) for i in range(3))
    mirror = Arena.create(3 * 8192)
    assert isinstance(launcher.ask(Arrange(plan_id=plan_id, copies=copies), (mirror.fd,)), Done)
    for number, copy in enumerate(copies):
        at = copy.offset + starts[0]
        mirror.buffer[at : at + 32] = torch.full((8,), float(number)).numpy().tobytes()
    assert isinstance(launcher.ask(Run()), Done)
    for number, copy in enumerate(copies):
        found = [struct.unpack_from("8f", mirror.buffer, copy.offset + starts[i]) for i in (0, 1)]
        assert found == [(number + 1.0,) * 8, (number + 2.0,) * 8]


def test_a_plan_is_not_laid_out_in_too_little_memory(launcher: Replayer) -> None:
    plan_id = launcher.prepared(plan(add(0, 1), outputs=(view(1),)))
    mirror = Arena.create(4096)
    reply = launcher.ask(Arrange(plan_id=plan_id, copies=(Region(offset=0, nbytes=64),)), (mirror.fd,))
    assert isinstance(reply, Failed) and reply.outcome is Outcome.NOT_IN_PLAN

"""Recording host functions in real confined children: what a plan holds, and what is refused and how it is said."""

from __future__ import annotations

import pytest
import torch

from kernelsmith.outcome import Outcome
from kernelsmith.plan import (
    ConstantBuffer,
    Copy,
    Fill,
    InputBuffer,
    Launch,
    PointerArgument,
    ScalarArgument,
    ScratchBuffer,
    StateBuffer,
    Writer,
    writers,
)
from kernelsmith.sandbox.wire.arguments import ListValue
from kernelsmith.sandbox.wire.messages import Call, Called, Choice, Failed, Repeat, Repeated, Structure
from tests.sandbox.players import SCALE, Candidate, Packed, kinds, loaded, read_outputs

# ---------------------------------------------------------------- plans


def test_a_kernel_into_a_new_tensor(candidate: Candidate) -> None:
    loaded(candidate, SCALE + "def op(x):\n    return scaled(x, torch.empty_like(x), 2.5)\n")
    x = torch.randn(100)
    plan, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs, [x * 2.5])
    assert plan.buffers == (InputBuffer(index=0, nbytes=400), ScratchBuffer(nbytes=400))
    (launch,) = plan.steps
    assert isinstance(launch, Launch)
    assert launch.grid == (2, 1, 1)
    assert launch.arguments[2:] == (ScalarArgument(value=100), ScalarArgument(value="2.5"))
    assert plan.kernels[0].signature == ("*fp32", "*fp32", "i32", "fp32")
    assert writers(plan) == (Writer.LAUNCH,)


def test_equal_work_on_other_contents_is_the_same_plan(candidate: Candidate) -> None:
    loaded(candidate, SCALE + "def op(x):\n    return scaled(x, torch.empty_like(x), 2.5)\n")
    plans = [candidate.called(Packed((torch.randn(100),)))[0] for _ in range(2)]
    assert plans[0].canonical() == plans[1].canonical()
    assert candidate.called(Packed((torch.randn(99),)))[0].canonical() != plans[0].canonical()


def test_constants_of_the_kernel_are_no_arguments(candidate: Candidate) -> None:
    source = """
@triton.jit
def k(x, y, none, one, n, s, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o * one, tl.load(x + o, mask=o < n) + s, mask=o < n)

def op(x, bias, s):
    y = torch.empty_like(x)
    k[(1,)](x, y, bias, y.stride(0), 10, s, B=16)
    return y
"""
    loaded(candidate, source)
    x = torch.randn(10)
    plan, outputs = candidate.called(Packed((x, None, 0.1)))
    torch.testing.assert_close(outputs, [x + 0.1])
    (launch,) = plan.steps
    assert isinstance(launch, Launch)
    assert [a.kind for a in launch.arguments] == ["pointer", "pointer", "scalar", "scalar"]
    assert launch.arguments[3] == ScalarArgument(value="0.1")


def test_an_argument_changed_in_place(candidate: Candidate) -> None:
    loaded(candidate, SCALE + "def op(x):\n    scaled(x, x, 3.0)\n")
    x = torch.randn(100)
    packed = Packed((x,))
    reply = candidate.call(packed)
    assert isinstance(reply, Called)
    assert reply.structure == Structure(kind="none")
    torch.testing.assert_close(packed.tensor(0), x * 3)


def test_views_carry_their_strides_and_share_their_storage(candidate: Candidate) -> None:
    loaded(candidate, SCALE + "def op(a, b):\n    return scaled(a, torch.empty_like(a), 2.0), b.t()[1:]\n")
    base = torch.randn(40)
    plan, outputs = candidate.called(Packed((base[8:28], base.view(4, 10))))
    assert plan.buffers[0] == InputBuffer(index=0, nbytes=160)
    torch.testing.assert_close(outputs, [base[8:28] * 2, base.view(4, 10).t()[1:]])
    launch = plan.steps[0]
    assert isinstance(launch, Launch)
    assert isinstance(launch.arguments[0], PointerArgument)
    assert launch.arguments[0].view.offset == 8
    assert plan.outputs[1].strides == (1, 10)
    assert writers(plan) == (Writer.LAUNCH, Writer.LAUNCH)


def test_work_around_the_kernel_becomes_steps(candidate: Candidate) -> None:
    body = """
def op(x):
    p = torch.nn.functional.pad(x.to(torch.float64).float(), (2, -1), value=7.0)
    c = torch.cat([p, x.repeat(2)]).contiguous()
    w = torch.full((3,), float("inf"))
    s = torch.stack([x, x], dim=1).t().contiguous()
    return [scaled(c, torch.zeros_like(c), 2.0), w, s[:, ::2], torch.ones(2, dtype=torch.bool)]
"""
    loaded(candidate, SCALE + body)
    x = torch.randn(6)
    plan, outputs = candidate.called(Packed((x,)))
    padded = torch.nn.functional.pad(x, (2, -1), value=7.0)
    expected = [torch.cat([padded, x, x]) * 2, torch.full((3,), float("inf")), torch.stack([x, x])[:, ::2]]
    torch.testing.assert_close(outputs[:3], expected)
    assert kinds(plan).count("launch") == 1
    fills = [step.value for step in plan.steps if isinstance(step, Fill)]
    assert fills == ["7.0", "inf", "0.0", True]
    assert writers(plan) == (Writer.LAUNCH, Writer.FILL, Writer.COPY, Writer.FILL)


def test_assignments_and_casts_in_place(candidate: Candidate) -> None:
    body = "def op(x):\n    y = torch.empty_like(x)\n    y[2:] = 1.5\n    y[:2] = x[2:4].half()\n    return y\n"
    loaded(candidate, SCALE + body)
    x = torch.randn(6)
    plan, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs[0], torch.cat([x[2:4].half().float(), torch.full((4,), 1.5)]))
    assert kinds(plan) == ["copy", "copy", "copy"]  # 1.5 is a tensor of no dimensions, copied into all of y[2:]
    assert any(isinstance(b, ConstantBuffer) and b.nbytes == 4 for b in plan.buffers)


def test_a_table_of_pointers_is_relocated(candidate: Candidate) -> None:
    source = """
@triton.jit
def k(table, n, B: tl.constexpr):
    o = tl.arange(0, B)
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    y = tl.load(table + 1).to(tl.pointer_type(tl.float32))
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)

def op(x):
    y = torch.empty(10)
    k[(1,)](torch.tensor([x.data_ptr() + 8, y.data_ptr()]), 10, B=16)
    return y
"""
    loaded(candidate, source)
    x = torch.randn(12)
    plan, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs, [x[2:] + 1])
    (table,) = (b for b in plan.buffers if isinstance(b, ConstantBuffer))
    assert [(r.at, r.offset) for r in table.relocations] == [(0, 8), (8, 0)]
    assert table.data == "00" * 16
    assert writers(plan) == (Writer.LAUNCH,)
    assert candidate.called(Packed((torch.randn(12),)))[0].canonical() == plan.canonical()


def test_arguments_of_every_kind(candidate: Candidate) -> None:
    source = """
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def k(pair, d, y, flag, big, half: tl.constexpr, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(pair[0] + o) * pair[1] + tl.reshape(d.load([0, 0]), (B,))
    if flag:
        v += (big // 1000000000000).to(tl.float32)
    tl.store(y + o, v * half)

def op(x):
    y = torch.empty(16)
    d = TensorDescriptor(x, [2, 16], [16, 1], [1, 16])
    k[(1,)]((x, 3.0), d, y, True, 7000000000000, half=0.5, B=16)
    return y
"""
    loaded(candidate, source)
    x = torch.randn(2, 16)
    plan, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs, [(x[0] * 3 + x[0] + 7) * 0.5])
    launch = plan.steps[0]
    assert isinstance(launch, Launch)
    values = [a.value for a in launch.arguments if isinstance(a, ScalarArgument)]
    assert values[0] == "3.0"
    assert values[-2:] == [True, 7000000000000]


def test_host_code_may_read_what_kernels_wrote(candidate: Candidate) -> None:
    body = """
def op(x):
    y = scaled(x, torch.empty_like(x), 2.0)
    return scaled(y, y, 10.0) if y[0].item() > 0 else y
"""
    loaded(candidate, SCALE + body)
    x = torch.ones(4)
    up, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs, [x * 20])
    down, outputs = candidate.called(Packed((-x,)))
    torch.testing.assert_close(outputs, [x * -2])
    assert (up.launches, down.launches) == (2, 1)
    assert up.canonical() != down.canonical()


def test_launches_that_pass_by_the_jit_function_are_seen(candidate: Candidate) -> None:
    body = """
def op(x):
    y = torch.empty_like(x)
    compiled = scale.warmup(x, y, x.numel(), 2.0, B=64, grid=(1,))
    compiled[(2, 1, 1)](x, y, x.numel(), 2.0, 64)
    return y
"""
    loaded(candidate, SCALE + body)
    x = torch.randn(100)
    plan, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs, [x * 2])
    assert plan.launches == 1


@pytest.mark.parametrize("decorator", ["custom_op", "triton_op"])
def test_custom_operators_are_recorded_from_within(candidate: Candidate, decorator: str) -> None:
    body = f"""
@torch.library.{decorator}("candidate::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    torch.library.wrap_triton(scale)[(1,)](x, y, x.numel(), 2.0, B=64)
    return y

def op(x):
    return twice(x)
"""
    loaded(candidate, SCALE + body)
    x = torch.randn(10)
    plan, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs, [x * 2])
    assert kinds(plan) == ["fill", "launch"]


def test_heuristics_are_left_alone(candidate: Candidate) -> None:
    source = """
@triton.heuristics({"B": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def k(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)

def op(x):
    y = torch.empty_like(x)
    k[(1,)](x, y, x.numel())
    return y
"""
    assert loaded(candidate, source).tunables == ()
    x = torch.randn(20)
    plan, outputs = candidate.called(Packed((x,)))
    torch.testing.assert_close(outputs, [x + 1])
    assert "32xf32" in plan.kernels[0].ttir


# ---------------------------------------------------------------- autotuning

TUNED = """
def even(configs, named, **kwargs):
    return [c for c in configs if named["n"] % c.kwargs["B"] == 0]

def hook(args):
    args["y"].zero_()

@triton.autotune(
    configs=[triton.Config({"B": 16}), triton.Config({"B": 64}, num_warps=8), triton.Config({"B": 32}, pre_hook=hook)],
    key=["n"], prune_configs_by={"early_config_prune": even})
@triton.jit
def k(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)

def op(x):
    y = torch.empty_like(x)
    k[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, y, x.numel())
    return y
"""


def test_the_judge_chooses_the_configuration(candidate: Candidate) -> None:
    (tunable,) = loaded(candidate, TUNED).tunables
    assert tunable.kernel == "k"
    assert tunable.configs[1] == "{'B': 64}, num_warps=8, num_stages=3"
    x = torch.randn(64)
    grids = []
    for choices in ((), (Choice(kernel="k", config=1),)):
        plan, outputs = candidate.called(Packed((x,)), *choices)
        torch.testing.assert_close(outputs, [x + 1])
        grids.append(plan.steps[0].grid if isinstance(plan.steps[0], Launch) else None)
    assert grids == [(4, 1, 1), (1, 1, 1)]
    assert plan.kernels[0].options["num_warps"] == 8


def test_a_hook_before_the_launch_is_part_of_the_plan(candidate: Candidate) -> None:
    loaded(candidate, TUNED)
    plan, _ = candidate.called(Packed((torch.randn(64),)), Choice(kernel="k", config=2))
    assert kinds(plan) == ["fill", "launch"]


def test_pruned_configurations_are_respected(candidate: Candidate) -> None:
    loaded(candidate, TUNED)
    packed = Packed((torch.randn(16),))
    reply = candidate.call(packed)
    assert isinstance(reply, Called)
    assert reply.choices == (Choice(kernel="k", config=0),)
    refused = candidate.call(packed, Choice(kernel="k", config=1))
    assert isinstance(refused, Failed)
    assert refused.outcome is Outcome.REJECTED
    assert "rules out configuration 1" in refused.message


# ---------------------------------------------------------------- classes and state

MODEL = (
    SCALE
    + """
class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n).exp().cumsum(0))
    def forward(self, x):
        return scaled(self.weight, x, 2.0)
"""
)


def test_a_class_is_constructed_under_the_seed_and_its_parameters_are_state(candidate: Candidate) -> None:
    loaded(candidate, MODEL, entry="ModelNew", is_class=True, init=(10,), seed=42)
    torch.manual_seed(42)
    weight = torch.randn(10).exp().cumsum(0)
    plan, outputs = candidate.called(Packed((torch.empty(10),)))
    torch.testing.assert_close(outputs, [weight * 2])
    (state,) = (b for b in plan.buffers if isinstance(b, StateBuffer))
    assert state.nbytes == 40
    arena = candidate.state(plan)
    assert bytes(arena.buffer[:40]) == weight.numpy().tobytes()


BY_IDENTITY = """
kept = []
def op(x, parts):
    if not any(x is a and parts is b and parts[0] is c for a, b, c, _ in kept):
        kept[:] = [(x, parts, parts[0], scaled(x, torch.empty_like(x), 2.0))]
    return kept[0][3]
"""


def test_arguments_in_the_same_place_are_the_same_objects(candidate: Candidate) -> None:
    """So an answer that is kept by the identity of its arguments is seen to be a stale one."""
    loaded(candidate, SCALE + BY_IDENTITY)

    def answer(packed: Packed) -> list[float]:
        values = packed.arguments.positional
        both = packed.arguments.model_copy(update={"positional": (values[0], ListValue(items=values[:1]))})
        reply = candidate.ask(Call(arguments=both), (packed.arena.fd, candidate.out.fd))
        assert isinstance(reply, Called), reply
        return read_outputs(candidate.out, reply.outputs)[0].tolist()

    packed = Packed((torch.ones(2),))
    assert answer(packed) == [2.0, 2.0]
    packed.arena.buffer[:8] = torch.tensor([3.0, 4.0]).numpy().tobytes()
    assert answer(packed) == [2.0, 2.0]
    assert answer(Packed((torch.tensor([3.0, 4.0]),))) == [6.0, 8.0]


def test_an_output_kept_from_the_last_call_changes_the_plan(candidate: Candidate) -> None:
    body = """
kept = {}
def op(x):
    if x.data_ptr() not in kept:
        kept[x.data_ptr()] = scaled(x, torch.empty_like(x), 2.0)
    return kept[x.data_ptr()].clone()
"""
    loaded(candidate, SCALE + body)
    packed = Packed((torch.randn(10),))
    first, _ = candidate.called(packed)
    second, _ = candidate.called(packed)
    assert (kinds(first), kinds(second)) == (["launch", "copy"], ["copy"])
    assert any(isinstance(b, StateBuffer) for b in second.buffers)


def test_nothing_is_said_of_what_a_call_finds_in_memory_that_it_leaves_changed(candidate: Candidate) -> None:
    """So its replay finds poison there: a kept workspace need not be cleared."""
    loaded(candidate, SCALE + "kept = torch.zeros(10)\ndef op(x):\n    scaled(x, kept, 2.0)\n    return kept.clone()\n")
    plans = [candidate.called(Packed((torch.randn(10),)))[0] for _ in range(2)]
    assert [b.content for plan in plans for b in plan.buffers if isinstance(b, StateBuffer)] == [None, None]
    assert plans[0].digest == plans[1].digest


# ---------------------------------------------------------------- unrecorded calls


def test_an_unrecorded_call_has_no_plan(candidate: Candidate) -> None:
    loaded(candidate, SCALE + "def op(x):\n    return scaled(x, torch.empty_like(x), 2.0).exp()\n")
    reply = candidate.call(Packed((torch.zeros(4),)), record=False)
    assert isinstance(reply, Called)
    assert reply.plan is None


def test_repeats_launch_or_only_pretend_to(candidate: Candidate) -> None:
    loaded(candidate, SCALE + "def op(x):\n    scaled(x, x, 2.0)\n")
    packed = Packed((torch.ones(4),))
    candidate.called(packed)
    assert isinstance(candidate.ask(Repeat(n=3)), Repeated)
    assert packed.tensor(0).tolist() == [16.0] * 4
    assert isinstance(candidate.ask(Repeat(n=3, launch=False)), Repeated)
    assert packed.tensor(0).tolist() == [16.0] * 4


def test_an_output_without_room_is_still_described(candidate: Candidate) -> None:
    loaded(candidate, "def op(x):\n    return torch.zeros(1 << 20), torch.zeros(2)\n")
    reply = candidate.call(Packed((torch.ones(4),)))
    assert isinstance(reply, Called)
    assert [out.offset for out in reply.outputs] == [None, 0]
    assert reply.outputs[0].shape == (1 << 20,)


def test_copies_between_buffers_are_told_apart(candidate: Candidate) -> None:
    loaded(candidate, "def op(a, b):\n    b.copy_(a)\n    return b\n")
    a, b = torch.randn(4), torch.zeros(4)
    plan, outputs = candidate.called(Packed((a, b)))
    torch.testing.assert_close(outputs, [a])
    (copy,) = plan.steps
    assert isinstance(copy, Copy)
    assert (copy.source.buffer, copy.out.buffer) == (0, 1)
    assert writers(plan) == (Writer.COPY,)

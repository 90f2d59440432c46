"""Every honest form in which host code launches kernels: recorded, right, and replayed to the same answer.

One candidate and one launcher serve all forms, and most share the kernels in PRELUDE, so that each is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

from kernelsmith.outcome import Outcome
from kernelsmith.plan import Launch, LaunchPlan, StateBuffer, Writer, writers
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.wire.messages import Called, Choice, Failed, Loaded
from tests.sandbox.players import Candidate, Packed, Replayer, kinds, loaded

PRELUDE = """
import collections, contextlib, dataclasses, enum, functools, itertools, logging, math, typing
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def add1(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)

def added(x, y):
    add1[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return y
"""


@dataclass(frozen=True)
class Form:
    """Host code, the arguments of its `op`, what it must return, and the steps of its plan."""

    source: str
    arguments: tuple[object, ...]
    expected: tuple[torch.Tensor, ...]
    steps: tuple[str, ...] = ("launch",)


X, M, EMPTY = torch.randn(100), torch.randn(8, 16), torch.empty(0)
LAUNCHED, COPIED = ("launch",), ("copy", "launch")

FORMS = {
    "a library's entry that keeps compiled kernels": Form(
        """
class LibEntry(triton.runtime.KernelInterface):
    def __init__(self, fn):
        self.fn, self.kept = fn, {}
    def run(self, *args, grid, warmup=False, **kwargs):
        key = tuple((a.dtype, a.data_ptr() % 16) if torch.is_tensor(a) else a for a in args)
        if key not in self.kept:
            self.kept[key] = self.fn.warmup(*args, grid=grid, **kwargs)
        shape = grid(dict(zip(self.fn.arg_names, args), **kwargs)) if callable(grid) else grid
        self.kept[key][(*shape, 1, 1)[:3]](*args, *kwargs.values())
entry = LibEntry(add1)
def op(x):
    y = torch.empty_like(x)
    entry[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, y, x.numel(), B=64)
    return y
""",
        (X,),
        (X + 1,),
    ),
    "run with positional constants, as a compiler writes it": Form(
        """
def op(x):
    y = torch.empty_strided((100,), (1,), device="cpu", dtype=torch.float32)
    add1.run(x, y, 100, 64, grid=(2, 1, 1), warmup=False)
    return (y,)
""",
        (X,),
        (X + 1,),
    ),
    "a compiled kernel on a stream": Form(
        """
def op(x):
    y = torch.empty_like(x)
    compiled = add1.warmup(x, y, x.numel(), B=64, grid=(1,))
    compiled[(2, 1, 1)](x, y, x.numel(), 64, stream=0)
    return y
""",
        (X,),
        (X + 1,),
    ),
    "a compiled kernel's own run": Form(
        """
def op(x):
    y = torch.empty_like(x)
    k = add1.warmup(x, y, x.numel(), B=64, grid=(1,))
    k._init_handles()
    k.run(2, 1, 1, 0, k.function, k.packed_metadata, None, None, None, x, y, x.numel(), 64)
    return y
""",
        (X,),
        (X + 1,),
    ),
    "keywords, options and a partial": Form(
        """
def op(x):
    y = torch.empty_like(x)
    launch = functools.partial(add1[(2,)], B=64, num_warps=8, num_stages=2)
    launch(y=y, n=x.numel(), x=x)
    return y
""",
        (X,),
        (X + 1,),
    ),
    "a grid of zero and one of three dimensions": Form(
        """
@triton.jit
def k(x, y, B: tl.constexpr):
    i = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(2) + tl.program_id(2)
    o = i * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o) + 1)
def op(x):
    y = torch.zeros_like(x)
    k[(0,)](x, y, B=16)
    k[[2, 2, 2]](x, y, B=16)
    return y
""",
        (M,),
        (M + 1,),
        ("fill", "launch", "launch"),
    ),
    "an empty tensor": Form("def op(x):\n    return added(x, torch.empty_like(x))\n", (EMPTY,), (EMPTY,)),
    "launches in a loop, their memory freed and used again": Form(
        """
def op(x):
    for _ in range(3):
        t = added(x, torch.empty_like(x))
        x = added(t, torch.empty_like(t))
        del t
    return x
""",
        (X,),
        (X + 6,),
        LAUNCHED * 6,
    ),
    "an output given by the caller, and the input handed back": Form(
        "def op(x, out):\n    return added(x, out), x, out[1:]\n", (X, torch.zeros(100)), (X + 1, X, (X + 1)[1:])
    ),
    "outputs that are views, not contiguous": Form(
        """
@triton.jit
def k(x, y, s0, s1, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(y + tl.program_id(0) * s0 + o * s1, tl.load(x + tl.program_id(0) * N + o) + 1)
def op(x):
    y = x.new_empty((x.shape[1], x.shape[0])).t()
    k[(x.shape[0],)](x, y, y.stride(0), y.stride(1), N=16)
    return y, y[1:, ::2]
""",
        (M,),
        (M + 1, (M + 1)[1:, ::2]),
    ),
    "memory formats": Form(
        """
def op(x):
    x = x.view(1, 2, 8, 8).to(memory_format=torch.channels_last)
    return added(x, torch.empty_like(x, memory_format=torch.preserve_format))
""",
        (M,),
        (M.view(1, 2, 8, 8) + 1,),
        COPIED,
    ),
    "fills, joins and pads around the kernel": Form(
        """
def op(x):
    p = torch.nn.functional.pad(x, (0, 1), value=3.0)
    c = torch.cat([p, torch.full((2,), 2.0), torch.zeros(1)]).contiguous()
    return added(c, c.new_empty(c.shape))
""",
        (X,),
        (torch.cat([X, torch.tensor([3.0, 2.0, 2.0, 0.0])]) + 1,),
        ("fill", "copy", "fill", "fill", "copy", "copy", "copy", "launch"),
    ),
    "a descriptor made on the device": Form(
        """
triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))
@triton.jit
def k(x, y, M, N, B: tl.constexpr, C: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, C])
    b = tl.make_tensor_descriptor(y, [M, N], [N, 1], [B, C])
    b.store([tl.program_id(0) * B, 0], a.load([tl.program_id(0) * B, 0]) + 1)
def op(x):
    y = torch.empty_like(x)
    k[(4,)](x, y, 8, 16, B=2, C=16)
    return y
""",
        (M,),
        (M + 1,),
    ),
    "descriptors made by the host": Form(
        """
@triton.jit
def k(a, b, B: tl.constexpr):
    b.store([tl.program_id(0) * B, 0], a.load([tl.program_id(0) * B, 0]) + 1)
def op(x):
    y = torch.empty_like(x)
    k[(4,)](TensorDescriptor.from_tensor(x, [2, 16]), TensorDescriptor.from_tensor(y, [2, 16]), B=2)
    return y
""",
        (M,),
        (M + 1,),
    ),
    "tuples, named ones, and what is None": Form(
        """
class Pair(typing.NamedTuple):
    x: object
    y: object
@triton.jit
def k(pair, extra, bias, B: tl.constexpr, more: tl.constexpr = None):
    o = tl.arange(0, B)
    v = tl.load(pair.x + o) * extra[0] + extra[1]
    if bias is not None:
        v += tl.load(bias + o)
    if more is not None:
        v += more
    tl.store(pair.y + o, v)
def op(x, bias):
    y = torch.empty_like(x)
    k[(1,)](Pair(x, y), (2.0, 3), bias, B=128)
    return y
""",
        (M, None),
        (M * 2 + 3,),
    ),
    "bytes reinterpreted": Form(
        """
@triton.jit
def k(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + o).to(tl.float32))
def op(x):
    half = x.to(torch.float16)
    y = torch.empty(1024, dtype=torch.uint8)[:512].view(torch.float32).view(8, 16)
    k[(1,)](triton.reinterpret(half.view(torch.int16), tl.float16), y, B=128)
    return y
""",
        (M,),
        (M.half().float(),),
        COPIED,
    ),
    "a table of the group's addresses, and an address as a number": Form(
        """
@triton.jit
def k(table, sizes, last, G: tl.constexpr, B: tl.constexpr):
    o = tl.arange(0, B)
    for g in range(G):
        p = tl.load(table + 2 * g).to(tl.pointer_type(tl.float32))
        q = tl.load(table + 2 * g + 1).to(tl.pointer_type(tl.float32))
        n = tl.load(sizes + g)
        tl.store(q + o, tl.load(p + o, mask=o < n) + 1, mask=o < n)
    tl.store(last.to(tl.pointer_type(tl.float32)) + o, tl.zeros((B,), tl.float32))
def op(a, b):
    ys = [torch.empty_like(a), torch.empty_like(b)]
    table = torch.tensor([t.data_ptr() for pair in zip([a, b], ys) for t in pair])
    zeros = torch.empty(128)
    k[(1,)](table, torch.tensor([a.numel(), b.numel()], dtype=torch.int32), zeros.data_ptr(), G=2, B=128)
    return *ys, zeros
""",
        (M, X),
        (M + 1, X + 1, torch.zeros(128)),
    ),
    "scalars of every kind, a seed among them": Form(
        """
@triton.jit
def k(x, y, flag, n, big, f, seed, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o, mask=o < n) + tl.rand(seed, o) * 0
    if flag:
        v = v * 0 + f
    tl.store(y + o, v + (big // 3_000_000_000).to(tl.float32), mask=o < n)
def op(x, seed):
    y = torch.empty_like(x)
    k[(1,)](x, y, True, 100, 3_000_000_000, 0.5, seed, B=128)
    return y
""",
        (X, 1234),
        (torch.full((100,), 1.5),),
    ),
    "custom operators with memory of their own": Form(
        """
@torch.library.custom_op("forms::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return added(added(x, torch.empty_like(x)), torch.empty_like(x))
@torch.library.custom_op("forms::into", mutates_args={"y"})
def into(x: torch.Tensor, y: torch.Tensor) -> None:
    added(x, y)
@torch.library.triton_op("forms::once", mutates_args={})
def once(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(add1)[(2,)](x, y, x.numel(), B=64)
    return y
def op(x):
    y = torch.empty_like(x)
    into(torch.ops.forms.once(twice(x)), y)
    return y
""",
        (X,),
        (X + 4,),
        LAUNCHED * 4,
    ),
    "an autograd function in inference mode": Form(
        """
class Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return added(x, torch.empty_like(x))
@torch.inference_mode()
def op(x):
    with contextlib.nullcontext():
        return Added.apply(x.detach().view(-1)).view_as(x)
""",
        (X,),
        (X + 1,),
    ),
    "chunks, stacked and moved about": Form(
        """
def op(x):
    a, b = (half.contiguous() for half in x.chunk(2, dim=-1))
    parts = torch.stack([added(a, torch.empty_like(a)), added(b, torch.empty_like(b))])
    return parts.movedim(0, -1).flatten(1)
""",
        (M,),
        (torch.stack([M[:, :8] + 1, M[:, 8:] + 1]).movedim(0, -1).flatten(1),),
        ("copy", "copy", "launch", "launch", "copy", "copy", "copy"),
    ),
}


@pytest.fixture(scope="module")
def host(roles: Zygote) -> Iterator[Candidate]:
    with Candidate(roles) as candidate:
        yield candidate


@pytest.fixture(scope="module")
def device(roles: Zygote) -> Iterator[Replayer]:
    with Replayer(roles) as replayer:
        yield replayer


def recorded(host: Candidate, packed: Packed, *choices: Choice) -> tuple[LaunchPlan, list[torch.Tensor]]:
    """The plan of the second call, and what it returned; an unrecorded call makes the same launches."""
    host.called(packed, *choices)
    packed.refill()
    plan, outputs = host.called(packed, *choices)
    packed.refill()
    unwatched = host.call(packed, *choices, record=False)
    packed.refill()
    assert isinstance(unwatched, Called), unwatched
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    assert [(plan.kernels[s.kernel].name, s.grid) for s in launches] == [(u.kernel, u.grid) for u in unwatched.launches]
    return plan, outputs


def replayed(host: Candidate, device: Replayer, plan: LaunchPlan, packed: Packed) -> list[torch.Tensor]:
    has_state = any(isinstance(buffer, StateBuffer) for buffer in plan.buffers)
    plan_id = device.prepared(plan, host.state(plan) if has_state else None)
    reply, outputs = device.replay(plan_id, packed)
    assert reply.state_intact and not reply.overrun
    return outputs


@pytest.mark.parametrize("name", FORMS)
def test_an_honest_form_is_admitted(host: Candidate, device: Replayer, name: str) -> None:
    form = FORMS[name]
    loaded(host, PRELUDE + form.source)
    packed = Packed(form.arguments)
    plan, outputs = recorded(host, packed)
    torch.testing.assert_close(outputs, [e.contiguous() for e in form.expected])
    assert tuple(kinds(plan)) == form.steps
    assert Writer.NOTHING not in writers(plan) or not outputs[0].numel()
    torch.testing.assert_close(replayed(host, device, plan, packed), outputs, rtol=0, atol=0)


TUNED = """
def configs():
    return [triton.Config({"B": 64}), triton.Config({"B": 128}, num_warps=2)]

@triton.autotune(configs(), key=[], reset_to_zero=["y"], restore_value=["x"])
@triton.jit
def first(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)

@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.autotune(configs(), key=["n"], prune_configs_by={"perf_model": lambda **named: named["B"], "top_k": 1})
@triton.heuristics({"WIDE": lambda args: args["B"] > 64})
@triton.jit
def second(x, y, n, EVEN: tl.constexpr, WIDE: tl.constexpr, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 10 * EVEN + 100 * WIDE, mask=o < n)

def op(x):
    y = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["B"]),)
    first[grid](x, y, x.numel())
    second[grid](y, y, x.numel())
    return y
"""


def test_two_autotuned_kernels_between_heuristics(host: Candidate, device: Replayer) -> None:
    """Hooks that exist for the search alone leave no step, since nothing is searched here."""
    reply = host.load(TUNED)
    assert isinstance(reply, Loaded)
    assert [(t.kernel, len(t.configs), t.keys) for t in reply.tunables] == [("first", 2, ()), ("second", 2, ("n",))]
    packed = Packed((X,))
    for config, more in ((0, 11), (1, 111)):
        plan, outputs = recorded(host, packed, *(Choice(kernel=k, config=config) for k in ("first", "second")))
        torch.testing.assert_close(outputs, [X + more])
        assert kinds(plan) == ["launch", "launch"]
        torch.testing.assert_close(replayed(host, device, plan, packed), outputs)


MODEL = """
class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        inverse = 1.0 / (10000 ** (torch.arange(0, features, 2).float() / features))
        angles = torch.outer(torch.arange(8).float(), inverse)
        self.register_buffer("table", torch.cat([angles, angles], dim=-1).cos(), persistent=False)
        self.linear = torch.nn.Linear(features, features)
        self.packed = self.linear.weight.detach().t().contiguous()
        with torch.no_grad():
            self.linear.bias.copy_(torch.linalg.vector_norm(self.linear.weight, dim=1))
    def forward(self, x):
        return added(self.table, torch.empty_like(self.table)), added(self.packed, torch.empty_like(self.packed))
"""


def test_a_model_prepares_anything_before_its_first_call(host: Candidate, device: Replayer) -> None:
    loaded(host, PRELUDE + MODEL, entry="ModelNew", is_class=True, init=(16,), seed=42)
    packed = Packed((X,))
    plan, outputs = recorded(host, packed)
    torch.manual_seed(42)
    weight = torch.nn.Linear(16, 16).weight.detach()
    angles = torch.outer(torch.arange(8).float(), 1.0 / (10000 ** (torch.arange(0, 16, 2).float() / 16)))
    torch.testing.assert_close(outputs, [torch.cat([angles, angles], dim=-1).cos() + 1, weight.t() + 1])
    assert sum(isinstance(buffer, StateBuffer) for buffer in plan.buffers) == 2
    torch.testing.assert_close(replayed(host, device, plan, packed), outputs)


LOCKED = """
lock = torch.zeros(1, dtype=torch.int32)
@triton.jit
def k(x, y, lock, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.atomic_add(lock, 1)
    tl.store(y + o, tl.load(x + o) + 1)
    tl.atomic_add(lock, -1)
def op(x):
    y = torch.empty_like(x)
    k[(1,)](x, y, lock, B=128)
    return y
"""


def test_memory_that_ends_as_it_began_may_persist(host: Candidate, device: Replayer) -> None:
    loaded(host, LOCKED)
    packed = Packed((M,))
    plan, outputs = recorded(host, packed)
    torch.testing.assert_close(replayed(host, device, plan, packed), outputs)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "def op(x):\n    y = torch.empty_like(x)\n    k = add1.warmup(x, y, 100, B=64, grid=(1,))\n"
            "    k[(2, 1, 1)](x, y, 100, 64, stream=1)\n    k[(2, 1, 1)](x, y, 100, 64, stream=2)\n    return y\n",
            "more than one stream",
        ),
        (
            # what a GPU says while a graph is captured, said here without one
            "torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: True\n"
            "def op(x):\n    return added(x, torch.empty_like(x))\n",
            "captures a graph",
        ),
    ],
    ids=["streams", "graph capture"],
)
def test_several_streams_and_captured_graphs_are_refused(candidate: Candidate, source: str, says: str) -> None:
    loaded(candidate, PRELUDE + source)
    reply = candidate.call(Packed((X,)))
    assert isinstance(reply, Failed)
    assert reply.outcome is Outcome.NOT_IN_PLAN
    assert says in reply.message


def test_numbers_and_absence_are_part_of_a_plan(host: Candidate) -> None:
    source = """
@triton.jit
def k(x, y, bias, s, n, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o, mask=o < n) * s
    if bias is not None:
        v += tl.load(bias + o, mask=o < n)
    tl.store(y + o, v, mask=o < n)
def op(x, bias, s):
    y = torch.empty_like(x)
    k[(1,)](x, y, bias, s, x.numel(), B=128)
    return y
"""
    loaded(host, source)
    calls = [(X, None, 2.0), (X, None, 3.0), (X, X, 2.0), (X.clone(), None, 2.0)]
    plans = [host.called(Packed(arguments))[0].canonical() for arguments in calls]
    assert len(set(plans)) == 3
    assert plans[0] == plans[3]

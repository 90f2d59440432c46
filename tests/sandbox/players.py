"""A judge in miniature: loads candidates, calls them, replays their plans, in confined children of one zygote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kernelsmith.evaluate.room.room import runtime
from kernelsmith.plan import ITEM_SIZES, LaunchPlan, View
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.roles import CANDIDATE, LAUNCHER, PRELOAD, WARM
from kernelsmith.sandbox.wire.arguments import (
    Arguments,
    FloatValue,
    IntegerValue,
    NoneValue,
    TensorValue,
    Value,
    pack,
)
from kernelsmith.sandbox.wire.exchange import CandidateReply, CandidateRequest, LauncherReply, LauncherRequest
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import (
    Call,
    Called,
    Choice,
    Keep,
    Kept,
    Load,
    Loaded,
    Order,
    OutputTensor,
    Prepare,
    Prepared,
    Replay,
    Replayed,
    Sample,
    Sampled,
    State,
    StateWritten,
    state_regions,
)
from kernelsmith.sandbox.wire.reading import candidate_reply, launcher_reply
from kernelsmith.targets import resolve

LIMITS = Limits(seconds=60, threads=2)
HEADER = "import torch, triton, triton.language as tl\n"
SCALE = """
@triton.jit
def scale(x, y, n, s, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) * s, mask=o < n)

def scaled(x, y, s):
    scale[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), s, B=64)
    return y
"""


def roles_zygote() -> Zygote:
    return Zygote(preload=PRELOAD, warm=WARM, environment=runtime(resolve("cpu")))


def flat(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


class Packed:
    """Arguments of one call, with their storages in an arena."""

    def __init__(self, values: Sequence[object]) -> None:
        storages: dict[int, torch.Tensor] = {}
        for tensor in (v for v in values if isinstance(v, torch.Tensor)):
            storages.setdefault(tensor.untyped_storage()._cdata, flat(tensor))
        self._bytes = list(storages.values())
        order = list(storages)
        self.regions = tuple(pack([b.numel() for b in self._bytes]))
        self.arena = Arena.create(max((r.offset + r.nbytes for r in self.regions), default=1))
        self.arguments = Arguments(regions=self.regions, positional=tuple(value_of(v, order) for v in values))
        self.refill()

    def refill(self) -> None:
        """Write the storages as they were given."""
        for data, region in zip(self._bytes, self.regions, strict=True):
            self.arena.buffer[region.offset : region.offset + region.nbytes] = data.numpy().tobytes()

    def tensor(self, index: int) -> torch.Tensor:
        """What the argument of that number holds now."""
        value = self.arguments.positional[index]
        assert isinstance(value, TensorValue)
        region = self.regions[value.view.buffer]
        return strided(bytes(self.arena.buffer[region.offset : region.offset + region.nbytes]), value.view)


def value_of(value: object, order: list[int]) -> Value:
    if isinstance(value, torch.Tensor):
        return TensorValue(
            view=View(
                buffer=order.index(value.untyped_storage()._cdata),
                dtype=str(value.dtype).removeprefix("torch."),
                shape=tuple(value.shape),
                strides=tuple(value.stride()),
                offset=int(value.storage_offset()),
            )
        )
    if value is None:
        return NoneValue()
    if isinstance(value, float):
        return FloatValue(text=repr(value))
    assert isinstance(value, int)
    return IntegerValue(value=value)


def strided(data: bytes, view: View) -> torch.Tensor:
    storage = torch.frombuffer(bytearray(data), dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=getattr(torch, view.dtype)).set_(storage, view.offset, view.shape, view.strides)


def read_outputs(arena: Arena, outputs: Sequence[OutputTensor]) -> list[torch.Tensor]:
    found = []
    for out in outputs:
        assert out.offset is not None
        nbytes = ITEM_SIZES[out.dtype] * torch.Size(out.shape).numel()
        data = bytearray(arena.buffer[out.offset : out.offset + nbytes])
        empty = torch.empty(out.shape, dtype=getattr(torch, out.dtype))
        found.append(torch.frombuffer(data, dtype=empty.dtype).view(out.shape) if nbytes else empty)
    return found


class Candidate:
    """A candidate in its child; use as a context manager."""

    def __init__(self, zygote: Zygote) -> None:
        self.child = zygote.spawn(CANDIDATE, limits=LIMITS)
        self.out = Arena.create(1 << 20)

    def __enter__(self) -> Candidate:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()

    def ask(self, request: CandidateRequest, fds: Sequence[int] = ()) -> CandidateReply:
        frame = self.child.request(request.model_dump_json().encode(), fds, seconds=60)
        return candidate_reply(frame.payload)

    def load(self, source: str, entry: str = "op", init: Sequence[object] = (), **more: Any) -> CandidateReply:
        packed = Packed(init)
        load = Load(source=HEADER + source, entry=entry, init=packed.arguments, **more)
        return self.ask(load, (packed.arena.fd,))

    def call(self, packed: Packed, *choices: Choice, record: bool = True) -> CandidateReply:
        request = Call(arguments=packed.arguments, choices=choices, record=record)
        return self.ask(request, (packed.arena.fd, self.out.fd))

    def called(self, packed: Packed, *choices: Choice) -> tuple[LaunchPlan, list[torch.Tensor]]:
        """A call that must work: its plan and its outputs."""
        reply = self.call(packed, *choices)
        assert isinstance(reply, Called), reply
        assert reply.plan is not None
        return reply.plan, read_outputs(self.out, reply.outputs)

    def state(self, plan: LaunchPlan) -> Arena:
        regions = state_regions(plan)
        arena = Arena.create(max((r.offset + r.nbytes for r in regions), default=1))
        reply = self.ask(State(), (arena.fd,))
        assert isinstance(reply, StateWritten), reply
        return arena


class Replayer:
    """A launcher in its child; use as a context manager."""

    def __init__(self, zygote: Zygote) -> None:
        self.child = zygote.spawn(LAUNCHER, limits=LIMITS)
        self.out = Arena.create(1 << 20)

    def __enter__(self) -> Replayer:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()

    def ask(self, request: LauncherRequest, fds: Sequence[int] = ()) -> LauncherReply:
        frame = self.child.request(request.model_dump_json().encode(), fds, seconds=60)
        return launcher_reply(frame.payload)

    def prepare(self, plan: LaunchPlan, state: Arena | None = None) -> LauncherReply:
        return self.ask(Prepare(plan=plan), (state.fd,) if state else ())

    def prepared(self, plan: LaunchPlan, state: Arena | None = None) -> int:
        reply = self.prepare(plan, state)
        assert isinstance(reply, Prepared), reply
        return reply.plan_id

    def replay(
        self, plan_id: int, packed: Packed, poison: int = 0xFF, order: Order = Order.DEVICE
    ) -> tuple[Replayed, list[torch.Tensor]]:
        request = Replay(plan_id=plan_id, inputs=packed.regions, poison=poison, order=order)
        reply = self.ask(request, (packed.arena.fd, self.out.fd))
        assert isinstance(reply, Replayed), reply
        return reply, read_outputs(self.out, reply.outputs)

    def sample(self, plan_id: int, packed: Packed) -> Sampled:
        request = Sample(plan_id=plan_id, inputs=packed.regions, flush_bytes=1 << 20)
        reply = self.ask(request, (packed.arena.fd,))
        assert isinstance(reply, Sampled), reply
        return reply

    def keep(self, plan_id: int, packed: Packed) -> list[torch.Tensor]:
        reply = self.ask(Keep(plan_id=plan_id, inputs=packed.regions), (packed.arena.fd, self.out.fd))
        assert isinstance(reply, Kept), reply
        return read_outputs(self.out, reply.outputs)


def loaded(candidate: Candidate, source: str, **more: object) -> Loaded:
    reply = candidate.load(source, **more)  # type: ignore[arg-type]
    assert isinstance(reply, Loaded), reply
    return reply


def kinds(plan: LaunchPlan) -> list[str]:
    return [step.kind for step in plan.steps]

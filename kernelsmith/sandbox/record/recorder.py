"""The candidate role: runs a model-written module in a confined fork and answers the judge.

Calls really run, kernels included, under the recorder; what comes back is the launch plan, the outputs and nothing that
is believed. Invariant: whatever the candidate raises becomes a `Failed`. The zygote calls `main`; nothing here is
secret, and nothing here outlives the candidate.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelsmith.devices import open_device
from kernelsmith.outcome import Outcome
from kernelsmith.plan import LaunchPlan
from kernelsmith.sandbox.record.aten_table import AtenRecorder
from kernelsmith.sandbox.record.autotune_hook import Tuning
from kernelsmith.sandbox.record.build_hook import BuildHook
from kernelsmith.sandbox.record.elsewhere import Elsewhere
from kernelsmith.sandbox.record.faults import failed
from kernelsmith.sandbox.record.launch_hook import LaunchHook, Observer
from kernelsmith.sandbox.record.lowering import Lowering
from kernelsmith.sandbox.record.many import call_many
from kernelsmith.sandbox.record.recording import Recording, Refusal, reason
from kernelsmith.sandbox.record.returned import returned
from kernelsmith.sandbox.roles import MODULE_NAME
from kernelsmith.sandbox.wire.arguments import ALIGNMENT, Arguments
from kernelsmith.sandbox.wire.exchange import CandidateReply
from kernelsmith.sandbox.wire.many import CallMany
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import (
    Call,
    Called,
    Failed,
    Launched,
    Load,
    Loaded,
    Lower,
    Lowered,
    Repeat,
    Repeated,
    State,
    StateWritten,
)
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError
from kernelsmith.sandbox.wire.reading import candidate_request, too_large
from kernelsmith.sandbox.wire.tensors import Arenas, python_arguments, region_bytes, use_threads, write_outputs

_MAX_PLACES = 5
_ADVICE = "Do this work in a Triton kernel: host code may only allocate, fill, copy, cast and view tensors"

_Host = Callable[..., Any]


def main(channel: Channel, scratch: Path) -> None:
    """Answer requests until the judge hangs up."""
    use_threads()
    session = Session(scratch, BuildHook(channel))
    while True:
        try:
            frame = channel.receive()
            payload = session.answer(frame.payload, frame.fds).model_dump_json().encode()
            if why := too_large(payload):
                refused = Failed(outcome=Outcome.NOT_IN_PLAN, message=f"the call is no launch plan: {why}")
                payload = refused.model_dump_json().encode()
            channel.send(payload)
        except PeerGoneError:
            return


class Session:
    """One candidate: its module, its host function, and the last call."""

    def __init__(self, scratch: Path, build_hook: BuildHook) -> None:
        self._file = scratch / f"{MODULE_NAME}.py"
        self._arenas = Arenas()
        self._build_hook = build_hook
        self._hook = LaunchHook()
        self._tuning = Tuning()
        self._entry = ""
        self._host: _Host | None = None
        self._last: tuple[list[object], dict[str, object]] = ([], {})
        self._given: tuple[Arguments, Arena] | None = None
        self._device = open_device()
        self._hosts: list[torch.Tensor] = []
        self._bases: list[torch.Tensor] = []
        """What the judge wrote, and where it lies for the device: the same tensors on the CPU."""
        self._state: list[bytes] = []
        self._lowering: Lowering | None = None
        """Of the last plan."""
        self._hook.install()
        self._tuning.install()

    def answer(self, payload: bytes, fds: Sequence[int]) -> CandidateReply:
        """What the candidate did, as a reply. Raises ValueError for a request that is none."""
        arenas = self._arenas.map(fds)
        match candidate_request(payload):
            case Load() as load:
                return self._guarded("loading the module", lambda: self._load(load, arenas))
            case Call() as call:
                return self._guarded(f"calling {self._entry}", lambda: self._call(call, arenas))
            case State():
                return self._write_state(arenas[0])
            case Lower() as lower:
                return self._lower(lower)
            case Repeat() as repeat:
                return self._guarded(f"calling {self._entry} again", lambda: self._repeat(repeat))
            case CallMany() as many:
                return self._guarded(f"calling {self._entry} {_at_once(many)}", lambda: self._call_many(many, arenas))

    def _guarded(self, doing: str, action: Callable[[], CandidateReply]) -> CandidateReply:
        try:
            return action()
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt too are the candidate's doing
            return failed(error, str(self._file), doing)

    # ---------------------------------------------------------------- load

    def _load(self, load: Load, arenas: Sequence[Arena]) -> CandidateReply:
        if load.builds:
            self._build_hook.install()
        module = self._import(load.source)
        entry = getattr(module, load.entry, None)
        if not callable(entry):
            what = "class" if load.is_class else "function"
            return Failed(outcome=Outcome.NO_CODE, message=f"the module defines no {what} named {load.entry}")
        self._entry = load.entry
        if load.is_class:
            bases = [self._device.place(region_bytes(arenas[0], region).clone()) for region in load.init.regions]
            positional, keywords = python_arguments(load.init, bases)
            torch.manual_seed(load.seed)
            entry = entry(*positional, **keywords)
            if not callable(entry):
                return Failed(outcome=Outcome.RUNTIME_ERROR, message=f"an instance of {load.entry} cannot be called")
        self._host = entry
        return Loaded(tunables=self._tuning.tunables())

    def _import(self, source: str) -> ModuleType:
        """As a module with a file, which Triton and tracebacks read the source from."""
        name = str(self._file)
        self._file.write_text(source, encoding="utf-8")
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        module = ModuleType(MODULE_NAME)
        module.__file__ = name
        sys.modules[MODULE_NAME] = module
        exec(compile(source, name, "exec"), module.__dict__)
        return module

    # ---------------------------------------------------------------- call

    def _call(self, call: Call, arenas: Sequence[Arena]) -> CandidateReply:
        if self._host is None:
            raise ValueError("no module is loaded")
        self._tuning.choose(call.choices)
        bases = self._arguments(call.arguments, arenas[0])
        recording = Recording([base.untyped_storage() for base in bases], str(self._file))
        launches: list[Launched] = []
        doubles = {i: region_bytes(arenas[0], region) for i, region in enumerate(call.elsewhere) if region is not None}
        placed = {i: self._device.place(double) for i, double in doubles.items()}
        elsewhere = Elsewhere([(bases[i], double) for i, double in placed.items()])
        if call.record:
            result = self._run(recording.launch, AtenRecorder(recording))
        else:
            result = self._unrecorded(call, elsewhere, launches)
        structure, outputs = returned(result)
        if isinstance(outputs, Failed):
            return outputs
        if recording.refusals:
            return _refused(list(recording.refusals))
        plan: LaunchPlan | None = None
        if call.record:
            try:
                plan = recording.plan(outputs)
            except ValueError as error:
                return Failed(outcome=Outcome.NOT_IN_PLAN, message=f"the call is no launch plan: {reason(error)}")
            self._state, self._lowering = recording.state, recording.lowering
        written, _ = write_outputs([elsewhere.of(tensor) for tensor in outputs], arenas[1])
        for host, base in [*self._placed(), *((doubles[i], placed[i]) for i in doubles)]:
            host.copy_(base)
        used = self._tuning.used()
        return Called(plan=plan, launches=tuple(launches), structure=structure, outputs=written, choices=used)

    def _arguments(self, arguments: Arguments, arena: Arena) -> list[torch.Tensor]:
        """Make them the arguments of the next call; returns their regions.

        Arguments that lie where the last ones lay are the same objects, as in a program that refills its buffers: an
        answer kept by the identity of a tensor is then a wrong one, for the judge has written other contents.
        """
        if self._given == (arguments, arena):
            for host, base in self._placed():
                base.copy_(host)
        else:
            self._hosts = [region_bytes(arena, region) for region in arguments.regions]
            self._bases = [self._device.place(host) for host in self._hosts]
            self._last = python_arguments(arguments, self._bases)
            self._given = arguments, arena
        return self._bases

    def _placed(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """What the judge wrote and its copy on the device, where there are two."""
        return [pair for pair in zip(self._hosts, self._bases, strict=True) if pair[0] is not pair[1]]

    def _unrecorded(self, call: Call, elsewhere: Elsewhere, launches: list[Launched]) -> object:
        """With nobody watching but the launch hook."""
        self._hook.replace = elsewhere.of if any(call.elsewhere) else None
        self._hook.run = call.launch
        try:
            return self._run(lambda kernel, grid, *_: launches.append(Launched(kernel=kernel.name, grid=grid)))
        finally:
            self._hook.replace = None
            self._hook.run = True

    def _run(self, observe: Observer, mode: AbstractContextManager[object] | None = None) -> object:
        assert self._host is not None
        self._hook.observe = observe
        positional, keywords = self._last
        try:
            with torch.no_grad(), mode or nullcontext():
                return self._host(*positional, **keywords)
        finally:
            self._hook.observe = None

    # ---------------------------------------------------------------- state and repeats

    def _write_state(self, arena: Arena) -> CandidateReply:
        at = 0
        for content in self._state:
            at = -(-at // ALIGNMENT) * ALIGNMENT
            if at + len(content) > arena.nbytes:
                raise ValueError(f"an arena of {arena.nbytes} bytes is too small for the state")
            arena.buffer[at : at + len(content)] = content
            at += len(content)
        return StateWritten()

    def _lower(self, request: Lower) -> CandidateReply:
        if self._lowering is None:
            raise ValueError("nothing was recorded yet")
        return Lowered(kernels=self._lowering.lower(request.chip))

    def _call_many(self, request: CallMany, arenas: Sequence[Arena]) -> CandidateReply:
        if self._host is None:
            raise ValueError("no module is loaded")
        self._tuning.choose(())
        return call_many(self._host, request, arenas, self._device)

    def _repeat(self, repeat: Repeat) -> CandidateReply:
        if self._host is None:
            raise ValueError("nothing was called yet")
        host, (positional, keywords) = self._host, self._last
        self._hook.run = repeat.launch
        try:
            with torch.no_grad(), self._device.timed():
                for _ in range(repeat.n):
                    host(*positional, **keywords)
            self._device.finish()
        finally:
            self._hook.run = True
        return Repeated()


def _at_once(request: CallMany) -> str:
    at_once = len(request.arguments)
    return f"{at_once} times at once" if at_once > 1 else "many times"


def _refused(refusals: Sequence[Refusal]) -> Failed:
    """All that the host function may not do, by line."""
    places: dict[tuple[str, int | None], list[str]] = {}
    for refusal in refusals:
        places.setdefault((refusal.does, refusal.line), []).append(refusal.object)
    told = [_told(does, line, objects) for (does, line), objects in places.items()]
    more = f"; {len(told) - _MAX_PLACES} more" if len(told) > _MAX_PLACES else ""
    return Failed(
        outcome=Outcome.NOT_IN_PLAN,
        message=f"host code {'; '.join(told[:_MAX_PLACES])}{more}. {_ADVICE}",
        line=refusals[0].line,
    )


def _told(does: str, line: int | None, objects: Sequence[str]) -> str:
    place = f" at line {line}" if line else ""
    return f"{does} {', '.join(objects)}".rstrip() + place

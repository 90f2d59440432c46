"""What the kernel must beat: the reference in eager mode, compiled by torch.compile for that very workload, and the
user's own kernel (`baseline=`), in a process that never holds model-written code.

Timed under the same protocol as a candidate's replay: fresh inputs, emptied caches, woken threads, warm memory. The
last is why the process is started with an allocator that keeps what is freed (see `ENVIRONMENT`): with glibc's defaults
every large output of an eager operator is mapped anew and half of its time is page faults, which a replay into existing
buffers does not pay; a 2048x4096 float32 RMSNorm took 45.8 ms eager that way and 4.6 ms with warm memory.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from kernelsmith.devices import DEFAULT, MODULE_VARIABLE, TORCH_VARIABLE, fallback, open_device
from kernelsmith.errors import KernelsmithError
from kernelsmith.evaluate.truth.answers import mutated_buffers
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.inputs import CallInputs, materialise
from kernelsmith.evaluate.truth.questions import (
    QUESTIONS,
    Answer,
    Build,
    Built,
    Clock,
    Clocked,
    Lift,
    Lifted,
    Open,
    Opened,
    Question,
    Trouble,
)
from kernelsmith.operators.load import LoadedOperator, load
from kernelsmith.sandbox.confine import linux
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError

ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}
"""glibc: never give memory back, so that a call finds it mapped (as a GPU's caching allocator does)."""

EAGER = "eager"
_MODES = {"compile": None, "max-autotune": "max-autotune-no-cudagraphs"}
"""Of torch.compile. Graphs of a card save launches, which no clock here counts, and copy the inputs, which it would."""
WARM_UP_CALLS = 3
SMALL_BYTES = 4 << 20
"""Inputs up to which a call on other contents comes first, untimed: emptying the caches also empties them of the
interpreter, which no real program does between two calls and which a replay, having no Python, would be spared. At
8x4096 bfloat16 a torch.compile call took 20 microseconds warm and 165 right after the caches were emptied."""


@dataclass
class _Workload:
    """Inputs of one workload and the calls that are ready for it."""

    seeds: tuple[int, ...]
    inputs: list[CallInputs]
    calls: dict[str, Callable[..., Any]] = field(default_factory=dict)


class Baselines:
    """Answers questions about one operator; state of the process, held by `main`."""

    def __init__(self, question: Open) -> None:
        torch.set_num_threads(question.threads)
        self._operator: LoadedOperator = load(question.operator, model_seed=question.model_seed)
        self._workloads: dict[int, _Workload] = {}
        self._flush: torch.Tensor | None = None
        self._card = None if os.environ.get(MODULE_VARIABLE, DEFAULT) == DEFAULT else open_device()
        """What is not the CPU; the operator's tensors are put there."""
        kind = os.environ.get(TORCH_VARIABLE)
        self._strict = fallback.refuse(kind) if self._card is not None and kind else None
        """Kept: as long as it is there, nothing that the device lacks is computed on the CPU in silence."""
        self._function = self._operator.function
        """The reference where it is timed: of a problem, on a card, with a model of its own that lies there."""
        if self._card is not None and kind and self._operator.problem is not None:
            there = replace(self._operator.problem)
            there.move(kind)
            self._function = there.call

    def answer(self, question: Question) -> Answer:
        match question:
            case Build():
                return self._build(question)
            case Clock():
                return Clocked(nanoseconds=self._clock(question))
            case Lift():
                from kernelsmith.evaluate.clock.lift import lift

                return Lifted(seeds=lift(self._operator))
            case Open():
                raise KernelsmithError("an operator is open already")

    def _build(self, question: Build) -> Built:
        workload = self._workloads.get(question.workload)
        if workload is None or workload.seeds != question.seeds:
            case = workload_cases(self._operator)[question.workload]
            inputs = [materialise(self._operator, case, seed) for seed in question.seeds]
            calls = workload.calls if workload else {}
            workload = self._workloads[question.workload] = _Workload(question.seeds, inputs, calls)
        if question.baseline in workload.calls:
            return Built(available=True)
        call, round_trip = self._callable(question.baseline), ""
        if call is None:
            return Built(available=False, reason=f"the operator names no {question.baseline}")
        try:
            with torch.no_grad():
                if self._card is not None and question.baseline == EAGER:
                    call, round_trip = self._on_card(call, workload.inputs[0])
                for _ in range(WARM_UP_CALLS):
                    call(*self._arguments(workload.inputs[0]))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own code or the compiler: told, not hidden
            first = str(error).splitlines()[0] if str(error) else ""
            return Built(available=False, reason=f"{question.baseline}: {type(error).__name__}: {first}")
        workload.calls[question.baseline] = call
        return Built(available=True, round_trip=round_trip)

    def _on_card(self, call: Callable[..., Any], inputs: CallInputs) -> tuple[Callable[..., Any], str]:
        """The call itself, or through the CPU with the reason where the card lacks an operator of it."""
        try:
            fallback.named(partial(call, *self._arguments(inputs)))
        except fallback.FallbackError as lacking:
            return through_cpu(self._operator.function, mutated_buffers(self._operator, inputs)), str(lacking)
        return call, ""

    def _callable(self, name: str) -> Callable[..., Any] | None:
        if name == EAGER:
            return self._function
        if name in _MODES:
            return _compiled(self._function, _MODES[name])
        return self._operator.baseline

    def _clock(self, question: Clock) -> int:
        workload = self._workloads[question.workload]
        call = workload.calls[question.baseline]
        inputs = workload.inputs[question.pool]
        arguments = self._arguments(inputs)
        other = self._arguments(workload.inputs[(question.pool + 1) % len(workload.inputs)])
        self._empty_caches(question.flush_bytes)
        with torch.no_grad():
            if self._card is not None:
                return self._card.time([partial(call, *arguments)])
            if inputs.nbytes <= SMALL_BYTES:
                call(*other)
            begin = time.perf_counter_ns()
            call(*arguments)
            return max(1, time.perf_counter_ns() - begin)

    def _empty_caches(self, nbytes: int) -> None:
        """Write other memory through the caches, which on the CPU also wakes torch's threads; a card can copy at least,
        whatever operators it lacks."""
        nbytes = max(nbytes, 1 << 20)
        if self._flush is None or self._flush.numel() != nbytes:
            self._flush = torch.empty(nbytes, dtype=torch.uint8) if self._card is None else self._card.reserve(nbytes)
        if self._card is None:
            self._flush.add_(1)
        else:
            half = nbytes // 2
            self._flush[:half].copy_(self._flush[nbytes - half :])

    def _arguments(self, inputs: CallInputs) -> list[Any]:
        """Fresh ones, where the baseline is to run."""
        if self._card is None:
            return inputs.arguments()
        return inputs.on([self._card.place(buffer.storage) for buffer in inputs.buffers()])


def through_cpu(function: Callable[..., Any], mutated: Sequence[int]) -> Callable[..., Any]:
    """What a program has to do whose device lacks an operator: copy the arguments to the host, compute there, copy the
    answer back, and the tensors (by number) that it changes."""

    def call(*arguments: Any) -> Any:
        leaves, shape = tree_flatten(arguments)
        hosts = [leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        answer = function(*tree_unflatten(hosts, shape))
        pairs = [pair for pair in zip(leaves, hosts, strict=True) if isinstance(pair[0], torch.Tensor)]
        for number in mutated:
            pairs[number][0].copy_(pairs[number][1])
        return tree_map_only(torch.Tensor, lambda one: one.to(pairs[0][0].device), answer) if pairs else answer

    return call


def _compiled(reference: Callable[..., Any], mode: str | None) -> Callable[..., Any]:
    """torch.compile in a mode, with static shapes; a code object of its own per workload, since dynamo's cache and its
    recompile limit (past which it falls back to eager in silence) go by code object."""
    import torch._dynamo

    torch._dynamo.config.fail_on_recompile_limit_hit = True
    namespace: dict[str, Any] = {"reference": reference}
    exec(compile("def call(*arguments):\n    return reference(*arguments)\n", "<baseline>", "exec"), namespace)
    compiled: Callable[..., Any] = torch.compile(namespace["call"], dynamic=False, mode=mode)
    return compiled


def serve(channel: Channel) -> None:
    """Answer until the judge hangs up."""
    baselines: Baselines | None = None
    while True:
        try:
            question = QUESTIONS.validate_json(channel.receive().payload)
        except PeerGoneError:
            return
        reply: Answer
        try:
            if isinstance(question, Open):
                baselines = Baselines(question)
                reply = Opened()
            elif baselines is None:
                reply = Trouble(message="no operator is open")
            else:
                reply = baselines.answer(question)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - everything the user's code raises goes back as words
            reply = Trouble(message=f"{type(error).__name__}: {error}")
        channel.send(reply.model_dump_json().encode())


def main(fd: int) -> None:
    """Entry of the process, started by rivals.py; `fd` is its end of the channel."""
    os.set_inheritable(fd, False)  # torch.compile starts compilers
    linux.die_with_parent()  # the judge stops this process between questions: if it is killed then, nobody else ends us
    linux.no_new_privileges()
    serve(Channel(socket.socket(fileno=fd)))

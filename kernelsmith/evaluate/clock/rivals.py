"""The judge's end of the baseline process: asks it questions, starts it again if it dies.

It runs only while it is asked something, so that threads that it leaves behind (libgomp's spin for milliseconds) slow
no candidate. Invariant: a baseline that cannot run (no compiler, an operator torch.compile refuses, a kernel of the
user's that raises) is a fact for the report; a process that dies is an InfrastructureError. No candidate is to blame
for either.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.clock.baseline import ENVIRONMENT
from kernelsmith.evaluate.truth.questions import (
    ANSWERS,
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
from kernelsmith.model import OperatorRef, Seed
from kernelsmith.sandbox.children import pause
from kernelsmith.sandbox.children.process import BOOT
from kernelsmith.sandbox.wire.protocol import Channel, ProtocolError

BUILD_SECONDS = 300.0
"""A torch.compile of a large model takes minutes; past this the baseline counts as unavailable."""
CLOCK_SECONDS = 120.0
END_SECONDS = 20.0
PACKAGE = str(Path(__file__).parents[2])
_T = TypeVar("_T")


class _TooSlowError(InfrastructureError):
    """A question was not answered in time; the process is gone."""


class _TroubleError(InfrastructureError):
    """The user's own code raised; the process lives."""


class Rivals:
    """The baselines of one operator, in a process of their own; safe to call from several threads."""

    def __init__(
        self,
        operator: OperatorRef,
        *,
        model_seed: int,
        threads: int,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`environment` says which device the process is to use, beside what it has from here."""
        self._environment = environment
        self._open = Open(operator=operator, model_seed=model_seed, threads=threads)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._lock = threading.RLock()
        self._ready: set[tuple[str, int]] = set()
        """Baselines and workloads that the present process was asked to build, and did."""
        self._unavailable: dict[str, str] = {}
        self._round_trips: dict[str, str] = {}

    @property
    def round_trips(self) -> dict[str, str]:
        """Baselines that go through the CPU, with their tensors copied there and back, and what the device lacks."""
        return dict(self._round_trips)

    @property
    def unavailable(self) -> dict[str, str]:
        """Baselines that cannot run, and why."""
        return dict(self._unavailable)

    def build(self, baseline: str, workload: int, seeds: Sequence[int]) -> bool:
        """Make a baseline ready for a workload; False where it cannot run."""
        if baseline in self._unavailable:
            return False
        question = Build(baseline=baseline, workload=workload, seeds=tuple(seeds))
        with self._lock:
            try:
                built = self._ask(question, Built, BUILD_SECONDS)
            except _TooSlowError:
                built = Built(available=False, reason=f"{baseline}: not ready within {BUILD_SECONDS:g} s")
            except _TroubleError as error:
                built = Built(available=False, reason=f"{baseline}: {error.message}")
            if built.available:
                self._ready.add((baseline, workload))
                if built.round_trip:
                    self._round_trips[baseline] = built.round_trip
            else:
                self._unavailable[baseline] = built.reason
            return built.available

    def clock(self, baseline: str, workload: int, pool: int, flush_bytes: int) -> int | None:
        """Nanoseconds of one call of what was built; None where it raises, and the baseline is unavailable from then
        on."""
        question = Clock(baseline=baseline, workload=workload, pool=pool, flush_bytes=flush_bytes)
        with self._lock:
            if (baseline, workload) not in self._ready:
                raise InfrastructureError(f"the baseline process has not built {baseline}, or was started again since")
            try:
                return self._ask(question, Clocked, CLOCK_SECONDS).nanoseconds
            except _TroubleError as error:
                self._unavailable[baseline] = f"{baseline}: {error.message}"
                return None

    def lift(self) -> tuple[Seed, ...]:
        """Starting kernels; none where torch's compiler takes too long over the operator, or dies of it."""
        try:
            return self._ask(Lift(), Lifted, BUILD_SECONDS).seeds
        except InfrastructureError as error:
            sys.stderr.write(f"no lifted kernels: {error.message}\n")
            return ()

    def close(self) -> None:
        """Also while a question, which may take minutes, is being answered: whoever asked gets an error."""
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            self._end()

    def _ask(self, question: Question, kind: type[_T], seconds: float) -> _T:
        with self._lock:
            if self._channel is None:
                self._start()
            answer = self._exchange(question, seconds)
        if isinstance(answer, Trouble):
            raise _TroubleError(answer.message)
        if not isinstance(answer, kind):
            raise InfrastructureError(f"the baseline process answered {answer.kind}")
        return answer

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, str(theirs.fileno()), PACKAGE, "kernelsmith.evaluate.clock.baseline"],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **ENVIRONMENT, **self._environment},
        )
        theirs.close()
        self._channel = Channel(ours)
        answer = self._exchange(self._open, CLOCK_SECONDS)
        if not isinstance(answer, Opened):
            self._end()
            words = answer.message if isinstance(answer, Trouble) else answer.kind
            raise InfrastructureError(f"the baseline process could not load the operator: {words}")

    def _exchange(self, question: Question, seconds: float) -> Answer:
        assert self._channel is not None and self._process is not None
        pid = self._process.pid
        pause.go_on([pid])
        try:
            self._channel.send(question.model_dump_json().encode())
            answer = ANSWERS.validate_json(self._channel.receive(time.monotonic() + seconds).payload)
        except TimeoutError as error:
            self._end()
            raise _TooSlowError(f"the baseline process took more than {seconds:g} s to {question.kind}") from error
        except ProtocolError as error:
            self._end()
            raise InfrastructureError(f"the baseline process failed at {question.kind}: {error}") from error
        if not pause.stand_still(lambda: [pid]):
            self._end()
            raise InfrastructureError("the baseline process cannot be stopped", "is it waiting for a device?")
        return answer

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.shutdown()
            self._channel.close()
            self._channel = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that waits for a device ends when that lets go
                self._process.wait(END_SECONDS)
            self._process = None
        self._ready.clear()

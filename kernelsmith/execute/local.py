"""Jobs on this machine: one judge process per executor, started when first needed and again if it dies.

Invariant: the judge's environment holds no API key, and a dead judge is an InfrastructureError for every job it had,
never a verdict.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from kernelsmith.errors import InfrastructureError, OperatorError, UsageError
from kernelsmith.execute import Tell, quiet
from kernelsmith.execute.start import Order, start
from kernelsmith.execute.wire import (
    REPLIES,
    Broken,
    Describe,
    Described,
    Evaluate,
    Evaluated,
    FindSeeds,
    JudgeReply,
    JudgeRequest,
    SeedsFound,
    Waiting,
)
from kernelsmith.model import Evaluation, Job, OperatorInfo, OperatorRef, Seed
from kernelsmith.sandbox.limits import Layer
from kernelsmith.sandbox.wire.protocol import MAX_FRAME, ProtocolError
from kernelsmith.text import line

_R = TypeVar("_R", bound=JudgeReply)
WHY_CHARS = 300
STOP_SECONDS = 10.0
LOAD_SECONDS = 600.0
"""Until an operator file must be loaded and described: importing torch and building a large model take minutes."""


class LocalExecutor:
    """Implements `Executor` for one target of this host.

    `targets` is the folder of the `--targets` flag; with `foreign` the operator came from elsewhere, and the judge runs
    in quarantine, of which `without` leaves layers out.
    """

    def __init__(
        self,
        target: str,
        *,
        width: int = 2,
        unsafe_no_sandbox: bool = False,
        targets: Path | None = None,
        foreign: bool = False,
        without: Collection[Layer] = (),
    ) -> None:
        self._order = Order(target, width, unsafe_no_sandbox, targets, foreign, without)
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._judge: _Judge | None = None
        self._closed = False

    def describe(self, operator: OperatorRef) -> OperatorInfo:
        try:
            return self._ask(lambda n: Describe(id=n, operator=operator), Described, seconds=LOAD_SECONDS).info
        except TimeoutError as error:
            self._abandon()
            message = f"had not been loaded after {LOAD_SECONDS:g} s"
            raise OperatorError(message, "does it wait for something, or loop?", file=operator.path) from error

    def seeds(self, operator: OperatorRef) -> tuple[Seed, ...]:
        return self._ask(lambda n: FindSeeds(id=n, operator=operator), SeedsFound).seeds

    def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
        return self._ask(lambda n: Evaluate(id=n, job=job), Evaluated, tell).evaluation

    def close(self) -> None:
        with self._lock:
            self._closed = True
            judge, self._judge = self._judge, None
        if judge is not None:
            judge.stop()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _abandon(self) -> None:
        """The judge that hangs; the next question starts another."""
        with self._lock:
            judge, self._judge = self._judge, None
        if judge is not None:
            judge.stop()

    def _ask(
        self, make: Callable[[int], JudgeRequest], kind: type[_R], tell: Tell = quiet, *, seconds: float | None = None
    ) -> _R:
        """Raises TimeoutError where `seconds` were given and are over."""
        reply = self._running().submit(make, tell).result(seconds)
        if isinstance(reply, Broken):
            raise reply.raised()
        if not isinstance(reply, kind):  # a judge of a foreign operator may say anything
            raise InfrastructureError(f"the judge answered a question of another kind ({reply.kind})")
        return reply

    def _running(self) -> _Judge:
        """The judge, started if there is none; `close` does not wait for that."""
        with self._starting:
            with self._lock:
                if self._judge is not None and self._judge.alive:
                    return self._judge
                closed = self._closed
            judge = None if closed else _Judge(self._order)
            with self._lock:
                if judge is not None and not self._closed:
                    self._judge = judge
                    return judge
        if judge is not None:
            judge.stop()
        raise InfrastructureError("the executor is closed")


class _Judge:
    """A running judge: sends requests, and a reader thread that hands replies to those who wait."""

    def __init__(self, order: Order) -> None:
        self._started = start(order)
        self._process, self._channel, self._log = self._started.process, self._started.channel, self._started.log
        self._waiting: dict[int, tuple[Future[JudgeReply], Tell]] = {}
        self._lock = threading.Lock()
        self._count = 0
        self.alive = True
        self._last_words = ""
        """How the judge ended and what it printed last; known once it has."""
        self._reader = threading.Thread(target=self._read, name="judge-reader", daemon=True)
        self._reader.start()

    def submit(self, make: Callable[[int], JudgeRequest], tell: Tell = quiet) -> Future[JudgeReply]:
        """`tell` hears why the answer takes time. Raises UsageError for a request that no frame holds."""
        future: Future[JudgeReply] = Future()
        with self._lock:
            self._count += 1
            number = self._count
            payload = make(number).model_dump_json().encode()
            if len(payload) > MAX_FRAME:
                raise UsageError(
                    f"a kernel or operator whose job takes {len(payload)} bytes; at most {MAX_FRAME} reach the judge",
                    "give a shorter source",
                )
            self._waiting[number] = future, tell
            if not self.alive:
                self._fail_all()
                return future
            try:
                self._channel.send(payload)
            except ProtocolError:
                self._channel.shutdown()  # the reader sees the end too, and tells everyone who waits
        return future

    def stop(self) -> None:
        """Close the channel: the judge ends by itself; kill it if it does not."""
        self._channel.shutdown()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_SECONDS)

    def _read(self) -> None:
        try:
            while True:
                self._hand_on(REPLIES.validate_json(self._channel.receive().payload))
        except (ProtocolError, ValueError):
            pass  # the end: of the judge, or of all belief in it
        finally:
            self._channel.shutdown()  # one that said something unreadable still lives
            ended = self._ended()
            with self._lock:
                self.alive = False
                self._last_words = f"{ended}; its last words: {self._tail()}"
                self._log.close()
                self._fail_all()
            self._channel.close()
            self._started.clear()

    def _hand_on(self, reply: JudgeReply) -> None:
        """To who waits for it."""
        with self._lock:
            waiting = self._waiting.get(reply.id)
            if not isinstance(reply, Waiting):
                self._waiting.pop(reply.id, None)
        if waiting is None:
            return
        future, tell = waiting
        if not isinstance(reply, Waiting):
            future.set_result(reply)
            return
        try:
            tell(line(reply.why, WHY_CHARS))  # a judge of a foreign operator may say anything
        except Exception as error:  # noqa: BLE001 - a listener's own failure, say that its reader has gone, is its own
            with self._lock:
                self._waiting.pop(reply.id, None)
            future.set_exception(error)

    def _ended(self) -> str:
        """How, once it has; it is killed if it does not."""
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if status == -signal.SIGKILL:
            return "killed by SIGKILL, as the kernel does where memory is used up"
        return f"with status {status}" if status >= 0 else f"by signal {-status}"

    def _fail_all(self) -> None:
        """Every job in flight is an infrastructure failure; the caller holds the lock."""
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            future.set_exception(
                InfrastructureError(
                    f"the judge process {self._process.pid} ended unexpectedly, {self._last_words}",
                    "run again; if it persists, `kernelsmith doctor` checks the machine",
                )
            )

    def _tail(self, limit: int = 2000) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - limit))
        return self._log.read().decode(errors="replace").strip() or "none"

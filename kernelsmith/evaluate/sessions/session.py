"""Talking to a confined candidate or launcher: one question, one typed answer, every way to fail named.

Invariant: a `CandidateFailure` carries only what is the candidate's own fault; a lost zygote or a launcher that cannot
work raises InfrastructureError instead. Every child is dead when its session is closed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from kernelsmith.compiled import Chip, GridLimits
from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.sessions.binaries import Binaries
from kernelsmith.evaluate.sessions.failure import CandidateFailure, KilledFailure, failure_of
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.stuck import DoubtError, StuckError
from kernelsmith.evaluate.sessions.transport import Desk
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.plan import MAX_KERNELS, Kernel, Launch, LaunchPlan
from kernelsmith.sandbox import roles
from kernelsmith.sandbox.children.zygote import ChildEnded, Zygote
from kernelsmith.sandbox.limits import Ending, Exit, Limits
from kernelsmith.sandbox.wire.arguments import Arguments, Region
from kernelsmith.sandbox.wire.builds import Built, Source
from kernelsmith.sandbox.wire.exchange import CandidateReply, CandidateRequest, LauncherReply, LauncherRequest
from kernelsmith.sandbox.wire.many import CalledMany, CallMany, ReplayedMany, ReplayMany
from kernelsmith.sandbox.wire.memory import Arena, ArenaPool
from kernelsmith.sandbox.wire.messages import (
    Arrange,
    Broken,
    Call,
    Called,
    Choice,
    Done,
    Examine,
    Examined,
    Failed,
    Forget,
    Keep,
    Kept,
    Load,
    Loaded,
    Lower,
    Lowered,
    Prepare,
    Prepared,
    Repeat,
    Repeated,
    Replay,
    Replayed,
    Run,
    Sample,
    Sampled,
    State,
    StateWritten,
    state_regions,
)
from kernelsmith.sandbox.wire.protocol import ProtocolError
from kernelsmith.sandbox.wire.reading import candidate_reply, launcher_reply

_T = TypeVar("_T")

_OUTCOME_OF_ENDING = {
    Ending.TIMEOUT: Outcome.TIMEOUT,
    Ending.MEMORY: Outcome.MEMORY,
    Ending.DEVICE_MEMORY: Outcome.MEMORY,
    **dict.fromkeys((Ending.PROCESSES, Ending.LOG_FLOOD, Ending.DISK), Outcome.SANDBOX_VIOLATION),
    **dict.fromkeys((Ending.EXITED, Ending.SIGNALLED, Ending.KILLED), Outcome.CRASHED),
}


class ChildSession:
    """A child of the zygote in one role."""

    def __init__(self, zygote: Zygote, role: str, limits: Limits, what: str, pool: ArenaPool) -> None:
        self.desk = Desk(pool)
        self.child = zygote.spawn(role, limits=limits, label=what)
        self._what = what
        self._limits = limits
        self._end: Ending | None = None
        self._resting = False
        self.answered_ns = 0
        """By the judge's clock, from the moment at which the child could run until its last answer was here."""
        self.asked_ns = 0
        """The same until no thread of it ran any more, for a child at rest."""

    def rest(self) -> None:
        """From now on it runs only while it is asked something: no thread or process of it takes time from others."""
        self._resting = True
        self._stand_still()

    def wake(self) -> None:
        """Let it run between questions too."""
        if self._resting:
            self._resting = False
            self.child.resume()

    def close(self) -> None:
        """Kill it and everything it started; its arenas are used again only where it is known to be dead.

        Raises StuckError where it does not die, unless that is known."""
        stuck: StuckError | None = None
        if self._end is None:
            end = self.child.kill()
            self._end = end.ending
            stuck = StuckError(self._what, end) if end.ending is Ending.STUCK else None
        if self._end in (Ending.LOST, Ending.STUCK):
            self.desk.drop()
        else:
            self.desk.clear()
        if stuck is not None:
            raise stuck

    def _stand_still(self) -> None:
        if self._end is None and not self.child.pause():
            self.close()
            raise CandidateFailure(
                Outcome.SANDBOX_VIOLATION, f"processes of the {self._what} cannot be stopped", stage=Stage.BENCH
            )

    def _ask(self, payload: bytes, fds: Sequence[int], seconds: float, stage: Stage) -> bytes:
        begin = time.perf_counter_ns()
        if self._resting:
            self.child.resume()
        answer = self._answer(payload, fds, seconds, stage)
        self.answered_ns = time.perf_counter_ns() - begin
        if self._resting:
            self._stand_still()
        self.asked_ns = time.perf_counter_ns() - begin
        return answer

    def _answer(self, payload: bytes, fds: Sequence[int], seconds: float, stage: Stage) -> bytes:
        try:
            return self.child.request(payload, fds, seconds=seconds).payload
        except ChildEnded as ended:
            self._end = ended.exit.ending
            raise self._died(ended.exit, seconds, stage) from None
        except ProtocolError as error:
            raise self._garbled(ValueError(str(error)), stage) from None

    def _died(self, end: Exit, seconds: float, stage: Stage) -> Exception:
        if end.ending is Ending.STUCK:
            return StuckError(self._what, end)
        if end.ending is Ending.LOST:
            why = end.log.rstrip().rpartition("\n")[2]  # the sandbox's own last word
            return InfrastructureError(f"the sandbox lost the {self._what} process: {why}")
        if end.ending is Ending.TIMEOUT and end.seconds > self._limits.seconds > seconds:
            limit = f"{self._limits.seconds:g} s"  # mostly those in which others were at work
            return InfrastructureError(f"the {self._what} process had to end after {limit}, before its work was done")
        words = f"did not finish within {seconds:g} s" if end.ending is Ending.TIMEOUT else end.excess(self._limits)
        words = words or f"process {end.describe()}"
        kind = KilledFailure if end.signal == "SIGKILL" and end.ending is Ending.SIGNALLED else CandidateFailure
        return kind(_OUTCOME_OF_ENDING[end.ending], f"the {self._what} {words}", stage=stage, log=end.log)

    def _garbled(self, error: ValueError, stage: Stage) -> CandidateFailure:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return CandidateFailure(
            Outcome.SANDBOX_VIOLATION, f"the {self._what} process sent a malformed answer: {first}", stage=stage
        )


class _BuildingSession(ChildSession):
    """A child whose kernels come from `binaries`; it compiles them itself where there are none."""

    def __init__(
        self,
        zygote: Zygote,
        role: str,
        limits: Limits,
        what: str,
        pool: ArenaPool,
        binaries: Binaries | None,
        own_time: OwnTime | None,
    ) -> None:
        super().__init__(zygote, role, limits, what, pool)
        self._binaries = binaries
        self._time = own_time or OwnTime()
        self.build_seconds = 0.0
        """Spent on builds so far; next to nothing where they were known."""

    def _built(self, binaries: Binaries, source: Source, seconds: float) -> Built | Failed:
        begin = time.monotonic()
        try:
            return binaries.get(source, seconds, self._time.excused)
        finally:
            self.build_seconds += time.monotonic() - begin

    def _left(self, seconds: float, stage: Stage) -> Callable[[], float]:
        """Counts so many seconds down, in the candidate's own time. What it returns is positive, or it raises
        CandidateFailure."""
        end = self._time.now + seconds

        def left() -> float:
            if (rest := end - self._time.now) > 0:
                return rest
            raise CandidateFailure(
                Outcome.TIMEOUT, f"building the kernels of the {self._what} takes more than {seconds:g} s", stage=stage
            )

        return left


class CandidateSession(_BuildingSession):
    """The process that holds the candidate's Python."""

    def __init__(
        self,
        zygote: Zygote,
        limits: Limits,
        pool: ArenaPool,
        binaries: Binaries | None = None,
        own_time: OwnTime | None = None,
        grid: GridLimits | None = None,
    ) -> None:
        """`grid`: what the launches of its calls are held to."""
        super().__init__(zygote, roles.CANDIDATE, limits, "candidate", pool, binaries, own_time)
        self._grid = grid or GridLimits()

    def load(self, request: Load, arena: Arena | None, seconds: float) -> Loaded:
        request = request.model_copy(update={"builds": self._binaries is not None})
        reply = self._exchange(request, [arena.fd] if arena else [], seconds, Stage.LOAD)
        return self._expect(reply, Loaded, Stage.LOAD)

    def call(
        self,
        arguments: Arguments,
        inputs: Arena,
        outputs: Arena,
        *,
        choices: tuple[Choice, ...] = (),
        record: bool = True,
        elsewhere: tuple[Region | None, ...] = (),
        launch: bool = True,
        seconds: float,
    ) -> Called:
        request = Call(arguments=arguments, choices=choices, record=record, elsewhere=elsewhere, launch=launch)
        called = self._expect(
            self._exchange(request, [inputs.fd, outputs.fd], seconds, Stage.RECORD), Called, Stage.RECORD
        )
        if (called.plan is not None) != record:
            raise self._garbled(ValueError("a plan where none was asked for, or none where one was"), Stage.RECORD)
        if called.plan is not None:
            self._hold(called.plan)
        return called

    def _hold(self, plan: LaunchPlan) -> None:
        """To what a grid may have; what is not recorded launches the same."""
        for step in plan.steps:
            if isinstance(step, Launch) and (
                excess := self._grid.excess(step.grid, math.prod(step.grid), "the device")
            ):
                message = f"{plan.kernels[step.kernel].name}: {'; '.join(excess)}"
                raise CandidateFailure(Outcome.RESOURCE_LIMIT, message, stage=Stage.RECORD)

    def state(self, plan: LaunchPlan, seconds: float) -> Arena | None:
        """Initial contents of the plan's state buffers, or None where it has none; the caller closes the arena."""
        regions = state_regions(plan)
        if not regions:
            return None
        arena = Arena.create(regions[-1].offset + regions[-1].nbytes, name="state")
        try:
            reply = self._exchange(State(), [arena.fd], seconds, Stage.RECORD)
            self._expect(reply, StateWritten, Stage.RECORD)
        except BaseException:
            arena.close()
            raise
        return arena

    def lower(self, plan: LaunchPlan, chip: Chip, seconds: float) -> tuple[Kernel | Failed, ...]:
        """The kernels of the plan, which was recorded last, as the chip's own front end makes them."""
        lowered = self._expect(self._exchange(Lower(chip=chip), [], seconds, Stage.COMPILE), Lowered, Stage.COMPILE)
        if len(lowered.kernels) != len(plan.kernels):
            raise self._garbled(ValueError(f"{len(lowered.kernels)} kernels of {len(plan.kernels)}"), Stage.COMPILE)
        return lowered.kernels

    def repeat(self, n: int, *, launch: bool, seconds: float) -> None:
        """The last call again, `n` times, with or without its kernels."""
        self._expect(self._exchange(Repeat(n=n, launch=launch), [], seconds, Stage.BENCH), Repeated, Stage.BENCH)

    def call_many(self, request: CallMany, inputs: Arena, outputs: Arena, *, seconds: float) -> CalledMany:
        """Many calls; raises CandidateFailure also where the answers are not one for each, in its own slot."""
        reply = self._exchange(request, [inputs.fd, outputs.fd], seconds, Stage.CHECK)
        called = self._expect(reply, CalledMany, Stage.CHECK)
        if len(called.answers) != len(request.contents):
            raise self._garbled(ValueError(f"{len(called.answers)} answers to {len(request.contents)}"), Stage.CHECK)
        sizes = [region.nbytes for region in request.arguments[0].regions]
        for run, answer in enumerate(called.answers):
            if not all(request.slots.holds(run, sizes, output) for output in answer.outputs):
                raise self._garbled(ValueError(f"the answer of call {run} lies outside of its slot"), Stage.CHECK)
        return called

    def _exchange(
        self, request: CandidateRequest, fds: Sequence[int], seconds: float, stage: Stage
    ) -> Loaded | Called | StateWritten | Lowered | Repeated | CalledMany | Failed:
        left = self._left(seconds, stage)
        reply = self._reply(request.model_dump_json(), fds, seconds, stage)
        asked = 0
        while isinstance(reply, Source):
            asked += 1
            if self._binaries is None or reply.checked or asked > MAX_KERNELS:
                raise self._garbled(ValueError(f"question {asked} for a build that it may not ask for"), stage)
            # a text that cannot be compiled is for the host function to know: it may have another one
            answer = self._built(self._binaries, reply, left())
            reply = self._reply(answer.model_dump_json(), [], left(), stage)
        return reply

    def _reply(self, request: str, fds: Sequence[int], seconds: float, stage: Stage) -> CandidateReply:
        payload = self._ask(request.encode(), fds, seconds, stage)
        try:
            return candidate_reply(payload)
        except ValueError as error:
            self.close()
            raise self._garbled(error, stage) from None

    def _expect(self, reply: CandidateReply, kind: type[_T], stage: Stage) -> _T:
        if isinstance(reply, kind):
            return reply
        if isinstance(reply, Failed):
            raise failure_of(reply, stage)
        raise self._garbled(ValueError(f"a {reply.kind} instead of an answer"), stage)


class LauncherSession(_BuildingSession):
    """The process that replays plans; it holds no candidate Python, but runs its kernels as native code."""

    def __init__(
        self,
        zygote: Zygote,
        limits: Limits,
        pool: ArenaPool,
        binaries: Binaries | None = None,
        own_time: OwnTime | None = None,
    ) -> None:
        super().__init__(zygote, roles.LAUNCHER, limits, "launcher", pool, binaries, own_time)
        self._kernels: dict[int, tuple[Kernel, ...]] = {}
        self._given: set[Source] = set()
        self._trusted = True
        """Until its first kernel has run."""

    def prepare(self, plan: LaunchPlan, state: Arena | None, seconds: float) -> Prepared:
        sources = [Source.of(kernel) for kernel in plan.kernels]
        request = Prepare(plan=plan, built=self._builds(sources, seconds))
        prepared = self._exchange(request, [state.fd] if state else [], seconds, Stage.COMPILE, Prepared)
        self._given.update(sources)
        if prepared.plan_id in self._kernels:
            raise self._garbled(ValueError("a plan has the number of another one"), Stage.COMPILE)
        self._kernels[prepared.plan_id] = plan.kernels
        return prepared

    def forget(self, plan_id: int) -> None:
        self._kernels.pop(plan_id, None)
        self._exchange_any(Forget(plan_id=plan_id), [], 30.0, Stage.COMPILE)

    def replay(self, request: Replay, inputs: Arena, outputs: Arena, *, seconds: float) -> Replayed:
        return self._exchange(request, [inputs.fd, outputs.fd], seconds, Stage.CHECK, Replayed)

    def replay_many(self, request: ReplayMany, inputs: Arena, outputs: Arena, *, seconds: float) -> ReplayedMany:
        return self._exchange(request, [inputs.fd, outputs.fd], seconds, Stage.CHECK, ReplayedMany)

    def sample(self, request: Sample, inputs: Arena, *, seconds: float) -> Sampled:
        return self._exchange(request, [inputs.fd], seconds, Stage.BENCH, Sampled)

    def keep(self, request: Keep, inputs: Arena, outputs: Arena, *, seconds: float) -> Kept:
        return self._exchange(request, [inputs.fd, outputs.fd], seconds, Stage.BENCH, Kept)

    def arrange(self, request: Arrange, mirror: Arena, *, seconds: float) -> Done:
        return self._exchange(request, [mirror.fd], seconds, Stage.BENCH, Done)

    def run(self, *, seconds: float) -> Done:
        return self._exchange(Run(), [], seconds, Stage.BENCH, Done)

    def examine(self, request: Examine, inputs: Arena, *, seconds: float) -> Examined:
        sources = [Source.of(kernel, checked=True) for kernel in self._kernels[request.plan_id]]
        request = request.model_copy(update={"built": self._builds(sources, seconds)})
        examined = self._exchange(request, [inputs.fd], seconds, Stage.CHECK, Examined)
        self._given.update(sources)
        return examined

    def _builds(self, sources: Sequence[Source], seconds: float) -> tuple[Built | None, ...]:
        """What the launcher has not got yet, by kernel; nothing where it compiles for itself. It has got what went with
        a question that it answered: a text that cannot be built keeps those beside it from being sent."""
        if self._binaries is None:
            return ()
        left = self._left(seconds, Stage.COMPILE)
        builds: dict[Source, Built] = {}
        for source in sources:
            if source not in self._given and source not in builds:
                built = self._built(self._binaries, source, left())
                if isinstance(built, Failed):
                    raise failure_of(built, Stage.COMPILE)
                builds[source] = built
        return tuple(builds.pop(source, None) for source in sources)

    def _exchange(
        self, request: LauncherRequest, fds: Sequence[int], seconds: float, stage: Stage, kind: type[_T]
    ) -> _T:
        reply = self._exchange_any(request, fds, seconds, stage)
        if isinstance(reply, kind):
            return reply
        raise self._garbled(ValueError(f"a {reply.kind} instead of an answer"), stage)

    def _exchange_any(
        self, request: LauncherRequest, fds: Sequence[int], seconds: float, stage: Stage
    ) -> LauncherReply:
        self._trusted = self._trusted and isinstance(request, Prepare | Forget)
        payload = self._ask(request.model_dump_json().encode(), fds, seconds, stage)
        try:
            reply = launcher_reply(payload)
        except ValueError as error:
            self.close()
            raise self._garbled(error, stage) from None
        if isinstance(reply, Failed):
            raise failure_of(reply, stage)
        if isinstance(reply, Broken):
            raise (InfrastructureError if self._trusted else DoubtError)(reply.message, reply.hint)
        return reply

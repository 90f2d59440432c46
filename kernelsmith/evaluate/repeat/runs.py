"""Many runs of one case: real calls by one thread or several at once, and replays of its plan in every order.

One message asks for a batch of runs on a few contents of which none but the judge has seen the truth, in an order drawn
for the message. Each run's answer is taken from a slot of its own. Known limit: the process sees which runs have equal
contents, so one that keeps its own answers can give them again without a run; counts of runs rest on its word.
Called by `repeat`, on the thread that owns both sessions.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kernelsmith.evaluate.check.check import Proven
from kernelsmith.evaluate.check.plans import programs
from kernelsmith.evaluate.repeat.causes import Replaying
from kernelsmith.evaluate.repeat.tally import Left, Tally
from kernelsmith.evaluate.sessions import transport
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.sessions.transport import Packed
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.outcome import Outcome
from kernelsmith.plan import ITEM_SIZES
from kernelsmith.sandbox.wire.arguments import ALIGNMENT
from kernelsmith.sandbox.wire.many import CallMany, Once, ReplayMany, Slots
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import OutputTensor

BATCH_BYTES = 8 << 20
"""Of what the runs of a batch leave: more would leave the caches."""
BATCH_RUNS = 256
POISONS = (0xFF, 0x00, 0x7F)
"""What fresh memory of a replay holds: drawn for each, so that none of them goes with a way to run."""
MOST_IN_ORDER = 256
"""Program instances up to which replays run them one by one, which costs a microsecond each."""


@dataclass(frozen=True)
class ManyRuns:
    """Runs of one case on `contents` with known truths; what they leave goes to the tally."""

    candidate: CandidateSession
    launcher: LauncherSession
    contents: Sequence[Known]
    first: int
    """The number of the first of them; the others follow."""
    random: random.Random
    seconds: Callable[[], float]
    """That the next question may take."""

    @property
    def batch(self) -> int:
        """Runs that one message may ask for."""
        return max(1, min(BATCH_RUNS, BATCH_BYTES // self._slots.nbytes))

    def replays(self, proven: Proven, count: int, tally: Tally, ways: Iterator[Replaying]) -> None:
        """Replay the plan so often in one message. Raises as a launcher session does."""
        order = self._drawn(count)
        desk = self.launcher.desk
        packed = self._packed(0)
        inputs, outputs = desk.inputs(packed[-1].end), desk.outputs(count * self._slots.nbytes)
        self._write(inputs, packed)
        large = programs(proven.plan) > MOST_IN_ORDER
        taken = [Replaying(threads=way.threads) if large else way for way in itertools.islice(ways, count)]
        runs = tuple(
            Once(
                content=packed[content].regions,
                poison=self.random.choice(POISONS),
                order=way.order,
                threads=way.threads,
            )
            for content, way in zip(order, taken, strict=True)
        )
        seed = self.random.getrandbits(62)
        request = ReplayMany(plan_id=proven.plan_id, runs=runs, seed=seed, slots=self._slots)
        replayed = self.launcher.replay_many(request, inputs, outputs, seconds=self.seconds())
        memory = transport.copied(outputs, count * self._slots.nbytes)
        for run, (content, way) in enumerate(zip(order, taken, strict=True)):
            storages = self._slots.storages(run, self._sizes)
            left = Left(memory, storages, self._planned(proven, self._slots.outputs(run, self._sizes)))
            tally.take(self.first + content, self.contents[content], left, way)
        if tally.finding is None and replayed.overrun:
            tally.finding = Finding(Outcome.OUT_OF_BOUNDS, "now and then a kernel writes beside a tensor of its own")
        elif tally.finding is None and not replayed.state_intact:
            message = "now and then memory kept between calls does not end as it began"
            tally.finding = Finding(Outcome.NOT_IN_PLAN, message)

    def calls(self, count: int, tally: Tally, *, at_once: int = 1, turns: bool = False, poison: bool = False) -> None:
        """Call the host function so often in one message, a multiple of `at_once`. Raises as a candidate session
        does."""
        order = self._drawn(count)
        desk = self.candidate.desk
        lanes = list(itertools.islice(self._rows(0), at_once))
        packed = self._packed(lanes[-1].end)
        inputs, outputs = desk.inputs(packed[-1].end), desk.outputs(count * self._slots.nbytes)
        self._write(inputs, packed)
        request = CallMany(
            arguments=tuple(lane.arguments for lane in lanes),
            contents=tuple(packed[content].regions for content in order),
            turns=turns,
            poison=poison,
            slots=self._slots,
        )
        called = self.candidate.call_many(request, inputs, outputs, seconds=self.seconds())
        memory = transport.copied(outputs, count * self._slots.nbytes)
        for run, (content, answer) in enumerate(zip(order, called.answers, strict=True)):
            storages = self._slots.storages(run, self._sizes)
            left = Left(memory, storages, answer.outputs, answer.structure)
            tally.take(self.first + content, self.contents[content], left)

    # ---------------------------------------------------------------- where everything lies

    @functools.cached_property
    def _sizes(self) -> list[int]:
        return [buffer.storage.numel() for buffer in self.contents[0].inputs.buffers()]

    @functools.cached_property
    def _slots(self) -> Slots:
        nbytes = Slots(nbytes=ALIGNMENT).outputs(0, self._sizes) + transport.room_for(self.contents[0].returned)
        return Slots(nbytes=-(-nbytes // ALIGNMENT) * ALIGNMENT)

    def _drawn(self, count: int) -> list[int]:
        """A content for each run: every one as often as any other, in an order that nobody can tell."""
        order = [run % len(self.contents) for run in range(count)]
        self.random.shuffle(order)
        return order

    def _rows(self, start: int) -> Iterator[Packed]:
        """Places for the same storages one behind the other."""
        while True:
            packed = transport.packed(self.contents[0].inputs, start)
            yield packed
            start = packed.end

    def _packed(self, start: int) -> list[Packed]:
        """Where each of the contents lies."""
        return list(itertools.islice(self._rows(start), len(self.contents)))

    def _write(self, arena: Arena, packed: Sequence[Packed]) -> None:
        for known, place in zip(self.contents, packed, strict=True):
            transport.write(known.inputs, arena, place.regions)

    def _planned(self, proven: Proven, start: int) -> tuple[OutputTensor, ...]:
        """Where a replay left the outputs of the plan, as `write_outputs` lays them out."""
        found = []
        for view in proven.plan.outputs:
            begin = -(-start // ALIGNMENT) * ALIGNMENT
            found.append(OutputTensor(dtype=view.dtype, shape=view.shape, strides=view.strides, offset=begin))
            start = begin + math.prod(view.shape) * ITEM_SIZES[view.dtype]
        return tuple(found)

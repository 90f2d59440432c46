"""How fast is a candidate that passed? Its replay beside the baselines, round by round in random order.

Everything runs alone on the device. No content is timed twice: before each replay some elements change, so that a
kernel which kept an answer would give a stale one. One in ten timed replays, at moments that nobody can foresee, and
the last run on contents whose truth is known; their outputs are asked for afterwards and compared whole. The launcher's
nanoseconds are bounded from outside: never more than the judge's own clock around the question, never less than
writing the outputs takes in the fastest memory that holds them, and their median must agree with what `outer` finds.
The host function's own Python is measured apart, by the judge's clock around real calls without kernels (on a small
case where the plan holds other work), and counts in every speed-up (on the CPU a call costs replay + host); a real call
of a workload may not take much longer than both.
"""

from __future__ import annotations

import itertools
import math
import mmap
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from kernelsmith.evaluate.check.check import Checker, Proven
from kernelsmith.evaluate.clock import noise, schedule
from kernelsmith.evaluate.clock.bandwidth import Bandwidth
from kernelsmith.evaluate.clock.outer import OuterClock
from kernelsmith.evaluate.clock.rivals import Rivals
from kernelsmith.evaluate.sessions import transport
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.model import Timing, Verdict
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.plan import Launch
from kernelsmith.sandbox.wire.arguments import Region
from kernelsmith.sandbox.wire.messages import Keep, Sample

MIN_ROUNDS, MAX_ROUNDS = 12, 100
ROUNDS_PER_AUDIT = 10
PRECISE = 0.01
"""Half-width of the ratio's interval, relative, at which a workload needs no more rounds."""
HOPELESS = 0.5
"""A candidate whose ratio lies surely below this is not measured further."""
POOL = 3
"""Input sets per workload to begin with."""
CHANGED = 64
"""Elements of each tensor that change before a replay is timed."""
HOST_BATCHES, HOST_CALLS, HOST_REPLAYS = 5, 50, 9
PLAIN_US = 1000.0
"""A host function that takes longer than this is not measured more precisely."""
REAL_CALLS, HIDDEN_FACTOR, HIDDEN_MS = 20, 3.0, 2.0
"""Most real calls per workload, and how much longer the fastest may take than the plan and the host's Python."""
BUSY_MS = 15.0
"""More for an ordinary call, whose answer waits for its turn several times, where other programs are at work."""
CARRIED_NS_PER_BYTE = 1.0
"""For handing the tensors of an ordinary call to the candidate and back: pages that it touches for the first time, 0.3
nanoseconds per byte and direction where nothing else runs."""
FLOOR_FACTOR = 4.0
"""Nothing writes this many times faster than a plain copy reads and writes what the same level of the memory holds: one
byte of the copy's two or three is written. A claim beyond it is not believed."""


@dataclass(frozen=True)
class Lane:
    """One workload on the launcher: its plan, its inputs in the arena, and who it runs against."""

    workload: int
    proven: Proven
    regions: tuple[tuple[Region, ...], ...]
    baselines: tuple[str, ...]


class Bench:
    """Measures one candidate; used by one thread that has the device alone."""

    def __init__(
        self,
        checker: Checker,
        launcher: LauncherSession,
        outer: OuterClock | None,
        *,
        flush_bytes: int,
        bandwidth: Bandwidth,
        seed: int,
    ) -> None:
        self._checker = checker
        self._launcher = launcher
        self._outer = outer
        self._flush = flush_bytes
        self._bandwidth = bandwidth
        self._seed = seed
        self._random = random.Random(seed)

    def lane(self, workload: int, proven: Proven, baselines: Sequence[str]) -> Lane:
        """Put a workload's input sets into the launcher's arena."""
        known = [self._checker.known(proven.case, content) for content in range(POOL)]
        end, regions = 0, []
        for one in known:
            packed = transport.packed(one.inputs, end)
            regions.append(packed.regions)
            end = -(-packed.end // mmap.PAGESIZE) * mmap.PAGESIZE
        arena = self._launcher.desk.inputs(end)
        for one, where in zip(known, regions, strict=True):
            transport.write(one.inputs, arena, where)
        return Lane(workload, proven, tuple(regions), tuple(baselines))

    def quick(self, lane: Lane, samples: int, *, hopeless: float = math.inf) -> float:
        """Median milliseconds of a few samples: enough to choose between configurations. One whose first two, of which
        the first finds everything cold, are both beyond `hopeless` gets no more."""
        taken: list[int] = []
        while len(taken) < samples and not (len(taken) == 2 and min(taken) / 1e6 > hopeless):
            taken.append(self._sample(lane, len(taken) % POOL))
        return sorted(taken)[len(taken) // 2] / 1e6

    def measure(self, lane: Lane, rivals: Rivals, *, host_us: float, seconds: float) -> Timing:
        """Interleaved rounds until the ratio to the best baseline is precise, hopeless, or the time is up."""
        names = ["candidate", *lane.baselines]
        times: dict[str, list[float]] = {name: [] for name in names}
        replays, host_ns = list[int](), host_us * 1e3
        audited, contents = audited_rounds(self._random), itertools.count()
        deadline = time.monotonic() + seconds
        ratio = schedule.Estimate(1.0, 0.0, float("inf"))
        self._sample(lane, 0)
        for count, order in enumerate(schedule.rounds(names, MAX_ROUNDS, self._seed), start=1):
            pool = count % POOL
            for name in filter(times.__contains__, order):
                if name == "candidate":
                    replays.append(self._sample(lane, pool, audit=next(contents) if count in audited else None))
                    times[name].append((replays[-1] + host_ns) / 1e6)
                elif (nanoseconds := rivals.clock(name, lane.workload, pool, self._flush)) is not None:
                    times[name].append(nanoseconds / 1e6)
                else:
                    del times[name]  # it broke: unavailable, and the report says why
            if count >= MIN_ROUNDS and count % 4 == 0:
                ratio = self._against_best(times)
                done = ratio.high - ratio.low < 2 * PRECISE * ratio.value or ratio.high < HOPELESS
                if done or time.monotonic() > deadline:
                    break
            elif count >= 3 and time.monotonic() > deadline + seconds:
                break
        self._sample(lane, 0, audit=next(contents))
        if self._outer is not None:
            claimed = sorted(replays)[len(replays) // 2]
            slower = self._outer.believed(lane.proven, claimed) / claimed
            times["candidate"] = [(t * slower + host_ns) / 1e6 for t in replays]
        return self._timing(lane, times, host_us)

    def refuse_hidden_work(self, candidate: CandidateSession, lane: Lane, timing: Timing) -> None:
        """A real call of the workload takes about what its replay and the host's Python take; one that takes much
        longer does work that is in no plan (NumPy on the tensors' memory, say). The fastest of a few calls counts, and
        three times the expectation is allowed, since other programs may be in the way.

        Asked twice: of calls that are only repeated, and of ordinary ones, whose answers are compared and which look to
        the candidate like any call of the check."""
        case, used = lane.proven.case, lane.proven.used
        self._checker.again(case, used)
        expected = HIDDEN_FACTOR * (timing.median_ms + timing.host_us / 1e3) + HIDDEN_MS
        known = self._checker.known(case, 1)
        carried = (known.input_bytes + known.output_bytes) * CARRIED_NS_PER_BYTE / 1e6

        def repeated() -> None:
            candidate.repeat(1, launch=True, seconds=self._checker.remaining(Stage.BENCH))

        ordinary = partial(self._checker.ordinary, case, used)
        for question, more_ms, busy_ms in ((repeated, 0.0, 0.0), (ordinary, carried, BUSY_MS)):
            fastest = self._fastest(question, candidate, expected + more_ms, busy_ms)
            if fastest is not None:
                raise CandidateFailure(
                    Outcome.NOT_IN_PLAN,
                    f"a real call takes {fastest:.3g} ms, but its launch plan {timing.median_ms:.3g} ms and the host "
                    f"function {timing.host_us:.0f} us: the host function does work that is not in the plan",
                    stage=Stage.BENCH,
                    where=case.where(),
                )

    def _fastest(
        self, question: Callable[[], None], candidate: CandidateSession, allowed_ms: float, busy_ms: float
    ) -> float | None:
        """Milliseconds of the fastest of REAL_CALLS answers where none came within `allowed_ms`, or `busy_ms` more
        where other programs are at work; None where one did."""
        fastest = float("inf")
        patience = noise.Patience(self._checker.excused, REAL_CALLS)
        for _ in patience:
            question()
            fastest = min(fastest, candidate.answered_ns / 1e6)
            if fastest <= allowed_ms + (busy_ms if patience.disturbed else 0.0):
                return None
        return fastest

    def host_us(self, candidate: CandidateSession, lane: Lane) -> float:
        """The host function's own time per call, microseconds, by the judge's clock around many calls.

        Kernels are left out, so what remains is Python and Triton's launch path. Fills and copies do run: where the
        plan has any, whole calls are timed and a replay with warm caches is taken off, or they would count twice.
        """
        plain, case = host_alone(lane.proven), lane.proven.case
        batches = []
        for batch in range(HOST_BATCHES):
            # repeated is what was called last; and who spares itself the work in repeated calls is asked in between,
            # about tuned workloads, often large, once
            if batch == 0 or case.workload is None:
                self._checker.again(case, lane.proven.used)
            candidate.repeat(HOST_CALLS, launch=not plain, seconds=self._checker.remaining(Stage.BENCH))
            batches.append(candidate.answered_ns / HOST_CALLS / 1e3)
            if batches[-1] > PLAIN_US:
                break
        whole = sorted(batches)[len(batches) // 2]
        if plain:
            return whole
        replays = sorted(self._sample(lane, i % POOL, flush=False) for i in range(HOST_REPLAYS))
        return max(0.0, whole - replays[HOST_REPLAYS // 2] / 1e3)

    def _sample(self, lane: Lane, pool: int, *, flush: bool = True, audit: int | None = None) -> int:
        """Nanoseconds of one replay, believed only within what the judge's own clock and the memory allow.

        With `audit`, on that altered content, whose truth is known and which is used once; its answer is compared.
        """
        known = self._checker.known(lane.proven.case, pool) if audit is None else None
        audited = None if audit is None else self._checker.altered(lane.proven.case, audit)
        truth = known or audited
        assert truth is not None
        inputs = self._launcher.desk.inputs(0)
        if audited is None:
            self._change(lane, pool)
        else:
            transport.write(audited.inputs, inputs, lane.regions[pool])
        request = Sample(
            plan_id=lane.proven.plan_id, inputs=lane.regions[pool], flush_bytes=self._flush if flush else 0
        )
        sampled = self._launcher.sample(request, inputs, seconds=self._checker.remaining(Stage.BENCH))
        outer = self._launcher.asked_ns
        if sampled.overrun or not sampled.state_intact:
            message = "a timed replay wrote beside its memory or left what it keeps between calls changed"
            raise CandidateFailure(Outcome.OUT_OF_BOUNDS, message, stage=Stage.BENCH)
        claimed = sampled.nanoseconds
        floor = truth.output_bytes / (self._bandwidth.best(truth.output_bytes) * FLOOR_FACTOR) * 1e9
        if not floor <= claimed <= outer:
            raise CandidateFailure(
                Outcome.SANDBOX_VIOLATION,
                f"the launcher claims {claimed} ns for a replay that needs {floor:.0f} ns or more to write its outputs "
                f"and took {outer} ns by the judge's clock",
                stage=Stage.BENCH,
            )
        if audited is not None:
            self._audit(lane, pool, audited)
        return claimed

    def _change(self, lane: Lane, pool: int) -> None:
        """Take some elements of each tensor from another input set, in place in the launcher's arena."""
        case, arena = lane.proven.case, self._launcher.desk.inputs(0)
        donors = self._checker.known(case, (pool + 1) % POOL).inputs.buffers()
        free = self._checker.changeable(case)
        for buffer, donor, region, may in zip(
            self._checker.known(case, pool).inputs.buffers(), donors, lane.regions[pool], free, strict=True
        ):
            if may and buffer.view.numel:
                places = torch.randint(buffer.view.numel, (min(CHANGED, buffer.view.numel),))
                at = torch.unravel_index(places, buffer.view.shape)
                buffer.on(transport.in_place(arena, region))[at] = donor.on(donor.storage)[at]

    def _audit(self, lane: Lane, pool: int, audited: Known) -> None:
        """Compare what a timed replay left behind, then put the first contents back."""
        regions, inputs = lane.regions[pool], self._launcher.desk.inputs(0)
        outputs = self._launcher.desk.outputs(transport.room_for(audited.returned))
        request = Keep(plan_id=lane.proven.plan_id, inputs=regions)
        kept = self._launcher.keep(request, inputs, outputs, seconds=self._checker.remaining(Stage.BENCH))
        after = transport.storages(inputs, regions)
        finding = self._checker.judged(audited, transport.outputs(outputs, kept.outputs), after)
        if finding is not None:
            raise CandidateFailure(
                finding.outcome,
                f"in a timed replay: {finding.message}",
                stage=Stage.BENCH,
                where=lane.proven.case.where(replay=True),
                mismatch=finding.mismatch,
            )
        transport.write(self._checker.known(lane.proven.case, pool).inputs, inputs, lane.regions[pool])

    def _against_best(self, times: dict[str, list[float]]) -> schedule.Estimate:
        best = _fastest_baseline(times)
        if best is None:
            return schedule.Estimate(1.0, 1.0, 1.0)
        return schedule.paired_ratio(times[best], times["candidate"], self._seed)

    def _timing(self, lane: Lane, times: dict[str, list[float]], host_us: float) -> Timing:
        replay = [t - host_us / 1e3 for t in times["candidate"]]
        median = schedule.median_interval(replay, self._seed)
        ratios = {
            name: schedule.paired_ratio(times[name], times["candidate"], self._seed)
            for name in times
            if name != "candidate"
        }
        best = _fastest_baseline(times)
        case = lane.proven.case
        known = self._checker.known(case, 0)
        moved = known.input_bytes + known.output_bytes
        assert case.workload is not None
        return Timing(
            workload=case.workload,
            median_ms=median.value,
            ci95_ms=(median.low, median.high),
            n=len(replay),
            host_us=host_us,
            baselines={n: schedule.median_interval(times[n], self._seed).value for n in times if n != "candidate"},
            speedup={name: ratio.value for name, ratio in ratios.items()},
            speedup_ci95={name: (ratio.low, ratio.high) for name, ratio in ratios.items()},
            verdict=Verdict.INCONCLUSIVE if best is None else schedule.verdict(ratios[best]),
            roofline=min(1.0, moved / (median.value / 1e3) / self._bandwidth.memory),
        )


def _fastest_baseline(times: dict[str, list[float]]) -> str | None:
    """The baseline with the smallest median; None where there is none."""
    baselines = [name for name in times if name != "candidate"]
    return min(baselines, key=lambda name: sorted(times[name])[len(times[name]) // 2], default=None)


def audited_rounds(dice: random.Random) -> frozenset[int]:
    """Of every ten rounds, and of the fewest that there are, one whose output is compared."""
    starts = range(1, MAX_ROUNDS + 1, ROUNDS_PER_AUDIT)
    return frozenset(dice.randrange(start, start + ROUNDS_PER_AUDIT) for start in starts)


def host_alone(proven: Proven) -> bool:
    """Whether the host function can be called with all of its plan's work left out."""
    return all(isinstance(step, Launch) for step in proven.plan.steps)

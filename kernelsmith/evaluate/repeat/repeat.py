"""Is a candidate right every time? Small cases again and again: real calls, replays in every order, calls at once.

`Repeater.check` looks for faults that come now and then where everything was right so far; `Repeater.again` asks of a
case that failed whether it always does. Both say how often, with an interval. Known limits: calls at once are those of
threads in one process, since what they share is the host function's to decide; a launcher that replays one plan several
times at once would share what two calls never do. And that a run took place is its process's word (see `runs`). Called
by `evaluate`, on the thread that owns both sessions.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from kernelsmith.base import digest
from kernelsmith.evaluate.check.check import Checker, Proven
from kernelsmith.evaluate.repeat import together
from kernelsmith.evaluate.repeat.causes import WAYS, Replaying
from kernelsmith.evaluate.repeat.runs import ManyRuns
from kernelsmith.evaluate.repeat.statistics import clean_runs, rate
from kernelsmith.evaluate.repeat.tally import Tally
from kernelsmith.evaluate.repeat.verdict import verdict
from kernelsmith.evaluate.sessions.failure import CandidateFailure, Suspect
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.compare import Finding, held_otherwise
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.evidence import Rate, Repeats, Together
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.sandbox.wire.messages import Structure

SELDOM = 1 / 1000
"""The share of wrong runs that a full check rules out at 95 %."""
FULL_RUNS = -(-clean_runs(SELDOM) // 100) * 100
RUNS = {Level.QUICK: 16, Level.FULL: FULL_RUNS, Level.EXHAUSTIVE: FULL_RUNS}
"""Calls, and as many replays."""
SECONDS = {Level.QUICK: 0.5, Level.FULL: 12.0, Level.EXHAUSTIVE: 30.0}
"""Wall seconds for them, by which they end whatever was reached; small kernels take a tenth of it."""
CASES = {Level.QUICK: 1, Level.FULL: 3, Level.EXHAUSTIVE: 3}
CONTENTS = {Level.QUICK: 2, Level.FULL: 8, Level.EXHAUSTIVE: 8}
"""Of each message."""
SMALL_BYTES = 128 << 10
"""Of a case's inputs: larger ones cost more than they tell."""
LOOKED_AT = 60
"""Cases among which those to be repeated are found: their truths are likely to be known still."""
FIRST_RUNS = 16
"""Of the first message, which shows how long a run takes."""
MESSAGE_SECONDS = 1.0
"""What one message may take, as far as that can be told."""
ENOUGH = 30
"""Wrong runs after which the rate is known well enough."""
CERTAIN_RUNS = 16
"""More runs on a content that was always wrong so far. If they are wrong too, at least 83 % of all are, at 95 %."""
TRUTH_SHARE = 0.25
"""Of the time that passes, the most that goes into new contents."""
FIRST_CONTENT = 1000
"""Number of the first content: no other part of a check uses them."""


@dataclass
class _Series:
    """Runs of one kind over the cases so far."""

    tallies: list[Tally] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return sum(tally.runs for tally in self.tallies)

    @property
    def wrong(self) -> int:
        return sum(tally.wrong for tally in self.tallies)

    @property
    def rate(self) -> Rate | None:
        return rate(self.wrong, self.runs) if self.runs else None


class Repeater:
    """Repeats one candidate's calls; `runs` of either kind, by default what the level asks for, and up to `at_once`
    calls at once, which quick checks leave out by default."""

    def __init__(
        self,
        checker: Checker,
        candidate: CandidateSession,
        launcher: LauncherSession,
        *,
        level: Level,
        seed: int,
        runs: int | None = None,
        at_once: int = 32,
    ) -> None:
        self._checker = checker
        self._candidate = candidate
        self._launcher = launcher
        self._level = level
        self._wanted = RUNS[level] if runs is None else runs
        self._seconds = SECONDS[level] if runs is None else math.inf
        self._most = at_once if runs is not None or level is not Level.QUICK else 1
        self._random = random.Random(int(digest("repeats", str(seed)), 16))
        self._ways: Iterator[Replaying] = itertools.cycle(WAYS)
        self._together: tuple[Together, ...] = ()
        self.repeats: Repeats | None = None
        """What was shown, if anything was."""

    def check(self, cases: Sequence[Case], most: float = math.inf) -> None:
        """Repeat some of these, which were right so far, for at most so many seconds and one message of each kind.

        Raises CandidateFailure for what is wrong: now and then, on some contents, or when several calls run at once.
        """
        chosen = self._chosen(cases)
        if not self._wanted or not chosen:
            if self._wanted:
                self._checker.collector.leave_out("no call was repeated: all cases are large")
            return
        calls, replays = _Series(), _Series()
        begin, seconds = time.monotonic(), min(self._seconds, most)
        try:
            for number, case in enumerate(chosen):
                share = (number + 1) / len(chosen)
                until = begin + seconds * share
                proven = self._checker.variant(case, ())
                self._repeat(case, proven, (calls, replays), int(self._wanted * share), until)
                self._refuse(case, proven, calls, replays)
                self._checker.forget(proven)
            if self._most > 1:
                self._at_once(chosen[0], min(seconds, SECONDS[Level.FULL]))
        finally:
            self._note(calls, replays)
        if (fewest := min(calls.runs, replays.runs)) < self._wanted:
            self._checker.collector.leave_out(f"{fewest:,} of {self._wanted:,} repeats were made: their time was up")

    def again(self, failure: CandidateFailure) -> None:
        """Say of a call that was wrong, or asked for something else than the one before, whether answers to the same
        inputs are always wrong, where they are not."""
        suspect = failure.suspect
        if failure.outcome not in (Outcome.WRONG_VALUES, Outcome.NOT_IN_PLAN) or suspect is None or not self._wanted:
            return
        replayed = failure.where is not None and failure.where.replay
        tally = Tally(self._judged)
        contents = [self._checker.known(suspect.case, suspect.content)]
        proven = self._checker.variant(suspect.case, ()) if replayed else None
        until = time.monotonic() + min(self._seconds, SECONDS[Level.FULL])
        count = FIRST_RUNS
        while tally.runs < FULL_RUNS and time.monotonic() < until and tally.wrong < ENOUGH:
            runs = self._runs(contents, 0)
            begin = time.monotonic()
            if proven is not None:
                runs.replays(proven, count, tally, itertools.repeat(Replaying()))
            else:
                runs.calls(count, tally)
            if tally.wrong == tally.runs:
                return
            count = self._next(runs, count, time.monotonic() - begin, FULL_RUNS - tally.runs)
        if tally.wrong:
            shown = rate(tally.wrong, tally.runs)
            self.repeats = Repeats(replays=shown) if replayed else Repeats(calls=shown)
            self._checker.collector.repeats(self.repeats)
            failure.outcome = Outcome.NONDETERMINISTIC
            failure.message = f"{self.repeats.rate}, all on the same inputs; the first time, {failure.message}"
        elif failure.outcome is Outcome.WRONG_VALUES:
            failure.message += f"\nnot wrong again in {tally.runs:,} repeats of the same call"

    # ---------------------------------------------------------------- one after the other

    def _chosen(self, cases: Sequence[Case]) -> list[Case]:
        """The largest of the small cases, plain contents first, and some that are smaller."""
        small = [(self._checker.known(case, 0).input_bytes, case) for case in cases[:LOOKED_AT]]
        fitting = [(nbytes, case) for nbytes, case in small if nbytes <= SMALL_BYTES]
        plain = [pair for pair in fitting if pair[1].values is Values.NORMAL] or fitting
        ordered = [case for _, case in sorted(plain, key=lambda pair: -pair[0])]
        return ordered[:: max(1, len(ordered) // CASES[self._level])][: CASES[self._level]]

    def _repeat(
        self,
        case: Case,
        proven: Proven,
        series: tuple[_Series, _Series],
        wanted: int,
        until: float,
    ) -> None:
        """Calls and replays by turns, until there are as many as wanted, enough are wrong, or the time is over."""
        calls, replays = series
        called, replayed = Tally(self._judged), Tally(self._judged)
        calls.tallies.append(called)
        replays.tallies.append(replayed)
        counts = [FIRST_RUNS, FIRST_RUNS]
        fresh = self._fresh(case)
        while min(calls.runs, replays.runs) < wanted and (not called.runs or time.monotonic() < until):
            number, contents = next(fresh)
            runs = self._runs(contents, number)
            begin = time.monotonic()
            count = min(counts[0], wanted - calls.runs)
            if count > 0 and called.wrong < ENOUGH:
                runs.calls(count, called, poison=self._random.random() < 0.5)
            middle = time.monotonic()
            counts[0] = self._next(runs, count, middle - begin, wanted)
            count = min(counts[1], wanted - replays.runs)
            if count > 0 and replayed.wrong < ENOUGH:
                runs.replays(proven, count, replayed, self._ways)
            counts[1] = self._next(runs, count, time.monotonic() - middle, wanted)
            if max(called.wrong, replayed.wrong) >= ENOUGH:
                return

    def _fresh(self, case: Case) -> Iterator[tuple[int, list[Known]]]:
        """Contents for message after message, with the number of the first: new ones as long as their truths, which
        cost more than runs, do not take most of the time."""
        begin, spent = time.monotonic(), 0.0
        contents, first = list[Known](), FIRST_CONTENT
        for batch in itertools.count():
            if not contents or spent <= TRUTH_SHARE * (time.monotonic() - begin):
                before = time.monotonic()
                number = CONTENTS[self._level]
                first = FIRST_CONTENT + batch * number
                contents = [self._checker.known(case, first + n) for n in range(number)]
                spent += time.monotonic() - before
            yield first, contents

    def _runs(self, contents: Sequence[Known], first: int) -> ManyRuns:
        return ManyRuns(self._candidate, self._launcher, contents, first, self._random, self._checker.remaining)

    def _next(self, runs: ManyRuns, count: int, seconds: float, wanted: int) -> int:
        """How many runs the next message asks for, if `count` took so long."""
        able = int(count * MESSAGE_SECONDS / max(seconds, 1e-6))
        return max(1, min(runs.batch, able, max(wanted, 1)))

    def _judged(
        self, known: Known, structure: Structure | None, returned: list[torch.Tensor], after: list[torch.Tensor]
    ) -> Finding | None:
        otherwise = held_otherwise(known.truth, structure.kind, len(returned)) if structure is not None else None
        return otherwise or self._checker.judged(known, returned, after)

    # ---------------------------------------------------------------- verdicts

    def _refuse(self, case: Case, proven: Proven, calls: _Series, replays: _Series) -> None:
        """Raises CandidateFailure if anything was wrong with the last case, which is the first one then."""
        called, replayed = calls.tallies[-1], replays.tallies[-1]
        finding = called.finding or replayed.finding
        if finding is None:
            return
        wrong = called if called.wrong else replayed
        content = next(iter(wrong.wrong_on), FIRST_CONTENT)
        closer = Tally(self._judged)
        if wrong.wrong and not called.varies and not replayed.varies:
            # that it is wrong stands, whatever else comes up while somebody looks closer
            with contextlib.suppress(CandidateFailure):
                self._closer(case, proven if wrong is replayed else None, content, closer)
        rates = Repeats(calls=calls.rate, replays=replays.rate).rate
        found = verdict(called, replayed, rates, closer)
        assert found is not None
        where = case.where(replay=wrong is replayed)
        failure = CandidateFailure(
            found.outcome, found.message, stage=Stage.CHECK, where=where, mismatch=finding.mismatch
        )
        failure.suspect = Suspect(case, content, plan_id=proven.plan_id)
        raise failure

    def _closer(self, case: Case, proven: Proven | None, content: int, tally: Tally) -> None:
        """More runs on one content: replays in every order if `proven`, else calls over both kinds of fresh memory."""
        runs = self._runs([self._checker.known(case, content)], content)
        if proven is not None:
            runs.replays(proven, min(runs.batch, CERTAIN_RUNS), tally, self._ways)
            return
        for poison in (True, False):
            runs.calls(min(runs.batch, CERTAIN_RUNS // 2), tally, poison=poison)

    def _at_once(self, case: Case, seconds: float) -> None:
        """Calls at once, more and more of them."""
        contents = [self._checker.known(case, FIRST_CONTENT + n) for n in range(together.CONTENTS)]
        tried = together.climb(self._runs(contents, FIRST_CONTENT), lambda: Tally(self._judged), self._most, seconds)
        self._together = tuple(tried.together)
        if (found := tried.verdict()) is not None:
            raise CandidateFailure(found.outcome, found.message, stage=Stage.CHECK, where=case.where())
        if tried.reached < self._most:
            message = f"calls at once were tried up to {tried.reached} of {self._most}: their time was up"
            self._checker.collector.leave_out(message)

    def _note(self, calls: _Series, replays: _Series) -> None:
        tallies = [*calls.tallies, *replays.tallies]
        self.repeats = Repeats(
            calls=calls.rate,
            replays=replays.rate,
            bitwise=all(tally.bitwise for tally in tallies),
            ulp=max((tally.ulp for tally in tallies), default=0.0),
            together=self._together,
        )
        self._checker.collector.repeats(self.repeats)

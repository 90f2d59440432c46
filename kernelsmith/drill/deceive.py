"""Runs a cheat and its twin through a whole evaluation, and says whether the verdict was fooled.

A cheat that the screen refuses is judged again without the screen, which is never the last line of defence. Imports
torch. Invariant: only the judge's own verdict and times count, held against those of an honest candidate.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelsmith.base import digest
from kernelsmith.diagnosis import DrillBreach, DrillFault, DrillResult
from kernelsmith.drill import catalog
from kernelsmith.drill.audit import Watch
from kernelsmith.drill.catalog import Cheat
from kernelsmith.drill.world import World
from kernelsmith.errors import KernelsmithError
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Evaluation, Job, OperatorRef, Timing
from kernelsmith.outcome import Outcome

TARGET = "cpu"
BASELINE = "eager"
_SECONDS = 60.0
_BENCH_SECONDS = 1.0
_GAIN = 3.0
"""How many times faster than the honest kernel the same work may seem: short measurements on shared machines."""


class Court:
    """The room that candidates are judged in, and where their operators lie."""

    def __init__(self, room: Room, folder: Path) -> None:
        self._room = room
        self._folder = folder
        self._seed = secrets.randbits(31)  # one for all, as in a run, so that truths are computed once

    def judge(
        self, source: str, *, operator: str = catalog.OPERATOR, timed: bool = False, screened: bool = True
    ) -> Evaluation:
        """A verdict. Raises KernelsmithError where none could be had."""
        path = self._folder / f"{digest(operator)[:12]}.py"
        path.write_text(operator, encoding="utf-8")
        job = Job(
            operator=OperatorRef(path=str(path)),
            target=TARGET,
            source=source,
            seed=self._seed,
            bench=timed,
            located=False,
            baselines=(BASELINE,),
            bench_seconds=_BENCH_SECONDS,
            seconds=_SECONDS,
        )
        return evaluate(job, self._room, screened=screened)

    @functools.cached_property
    def honest(self) -> Evaluation:
        """What an honest candidate is measured at."""
        return self.judge(catalog.honest(), timed=True)


def deceive(cheat: Cheat, world: World, court: Court, mode: str) -> DrillResult:
    """The cheat, with the screen and, if need be, without it; then its twin."""
    started = time.monotonic()
    watch = Watch(world)
    breaches: list[DrillBreach] = []
    outcome = ""
    for screened in (True, False):
        try:
            verdict = court.judge(cheat.source, operator=cheat.operator, timed=cheat.timed, screened=screened)
            fooled = [*_fooled(cheat, verdict, court.honest if cheat.timed else None)]
        except KernelsmithError as error:
            outcome = type(error).__name__
            breaches.append(DrillBreach(fault=DrillFault.CRASH, what=f"no verdict: {error.message}"))
            break
        outcome = verdict.outcome.value if screened else f"{outcome}, then {verdict.outcome.value}"
        breaches += [*fooled, *world.leaks(verdict.message, verdict.log)]
        if verdict.outcome is not Outcome.REJECTED:
            break
    try:
        twin = court.judge(cheat.twin, operator=cheat.operator)
    except KernelsmithError as error:
        breaches.append(DrillBreach(fault=DrillFault.CRASH, what=f"no verdict on its twin: {error.message}"))
    else:
        if twin.outcome is not Outcome.PASSED:
            what = f"its twin: {twin.outcome.value}: {twin.message}"
            breaches.append(DrillBreach(fault=DrillFault.HONEST_REFUSED, what=what))
    breaches += watch.breaches()
    return DrillResult(
        mode=mode,
        kind="cheat",
        name=cheat.name,
        about=cheat.about,
        ended=outcome,
        breaches=tuple(breaches),
        seconds=time.monotonic() - started,
    )


def _fooled(cheat: Cheat, verdict: Evaluation, honest: Evaluation | None) -> Iterator[DrillBreach]:
    """Whether a verdict is better than the cheat deserves; its times are held against those of `honest` work."""
    if verdict.outcome is not Outcome.PASSED:
        return
    if not cheat.may_pass:
        yield DrillBreach(fault=DrillFault.FALSE_PASS, what="passed")
    if honest is None:
        return
    gains = _gains(verdict.timings, honest.timings)
    if not gains:
        words = f"{honest.outcome.value} {honest.message}".strip()
        what = f"nothing to hold its times against: the same work without the cheat is {words}"
        yield DrillBreach(fault=DrillFault.CRASH, what=what)
    elif max(gains) > _GAIN:
        what = f"seems {max(gains):.1f} times as fast as the same work without the cheat"
        yield DrillBreach(fault=DrillFault.FALSE_PASS, what=what)


def _gains(timings: Sequence[Timing], honest: Sequence[Timing]) -> list[float]:
    """How many times faster than the honest ones, in milliseconds and against the baseline; empty where one has no
    counterpart."""
    if len(timings) != len(honest) or not all(BASELINE in timing.speedup for timing in (*timings, *honest)):
        return []
    faster = [its.median_ms / timing.median_ms for timing, its in zip(timings, honest, strict=True)]
    pairs = zip(timings, honest, strict=True)
    return faster + [timing.speedup[BASELINE] / its.speedup[BASELINE] for timing, its in pairs]

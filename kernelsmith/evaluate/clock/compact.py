"""Fewer configurations for the same workloads: where one that won elsewhere is hardly slower, it serves here too.

A package bakes in a configuration per workload, and each is compiled, verified and dispatched to; so the fewest are
kept with which no workload is slower than its own best by more than LOSS (a greedy set cover). Pure. Called by
`evaluate` once every workload has been searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.clock.configs import Chosen, Tried, Vector
from kernelsmith.evaluate.clock.gate import Turns
from kernelsmith.evaluate.sessions.failure import FATAL, CandidateFailure
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.sandbox.wire.messages import Choice

LOSS = 0.02
"""Slower than a workload's own best, as a share over all its kernels: what a few samples can hardly tell apart."""


@dataclass(frozen=True)
class Compacted:
    """By workload, in order."""

    picks: tuple[Vector, ...]
    losses: tuple[float, ...]
    """How much slower each is than its own best, as a share; as the search's few samples say."""

    def words(self, before: Sequence[Vector]) -> str:
        """What was done, for the verdict's notes; nothing where each workload keeps its own."""
        fewer, own = len(set(self.picks)), len(set(before))
        if fewer == own:
            return ""
        worst = max(self.losses)
        return (
            f"{fewer} instead of {own} configurations serve {len(self.picks)} workloads; none is more than "
            f"{worst:.1%} slower than its own best"
        )


def served_by_fewer(
    checker: Checker, gate: Turns, points: Sequence[Case], found: Sequence[Chosen]
) -> tuple[list[Chosen], str]:
    """Each workload's plan, with fewer configurations where those are right there too, and words for what was done. One
    that is wrong on another workload is no reason to refuse the candidate: that workload keeps its own."""
    own = [one.choices for one in found]
    fewer = compacted(own, [one.tried for one in found])
    served = list(found)
    for number, (case, vector) in enumerate(zip(points, fewer.picks, strict=True)):
        if vector == own[number]:
            continue
        try:
            with gate.shared():
                proven = checker.case(case, vector, keep=True)
        except CandidateFailure as refused:
            if refused.outcome in FATAL:
                raise
            continue
        checker.forget(found[number].proven)
        served[number] = replace(found[number], proven=proven, choices=vector)
    kept = [one.choices for one in served]
    losses = tuple(loss if kept[n] == fewer.picks[n] else 0.0 for n, loss in enumerate(fewer.losses))
    return served, Compacted(tuple(kept), losses).words(own)


def compacted(picks: Sequence[Vector], tried: Sequence[Sequence[Tried]]) -> Compacted:
    """`picks` are the winners by workload, `tried` what each configuration took there. Where that saves none, each
    workload keeps its own."""
    times = [{one.choice: one.ms for one in found if one.ms is not None} for found in tried]
    chosen = [list(vector) for vector in picks]
    losses = [0.0] * len(picks)
    kernels = list(dict.fromkeys(choice.kernel for vector in picks for choice in vector))
    for kernel in kernels:
        own = {n: c for n, vector in enumerate(picks) for c in vector if c.kernel == kernel}
        served = _served(own, times, LOSS / len(kernels))
        if len({choice for choice, _ in served.values()}) == len(set(own.values())):
            continue
        for number, (choice, loss) in served.items():
            chosen[number] = [choice if c.kernel == kernel else c for c in chosen[number]]
            losses[number] += loss
    return Compacted(tuple(map(tuple, chosen)), tuple(losses))


def _served(
    own: dict[int, Choice], times: Sequence[dict[Choice, float]], most: float
) -> dict[int, tuple[Choice, float]]:
    """The configuration that serves each workload, and what that costs it: its own where that is kept at all, else the
    cheapest of those that are."""
    kept = _cover(own, times, most)
    served = {}
    for number, mine in own.items():
        costs = {choice: loss for choice in kept if (loss := _loss(mine, choice, times[number], most)) is not None}
        best = min(costs, key=lambda choice: (costs[choice], choice != mine, kept.index(choice)))
        served[number] = (best, costs[best])
    return served


def _cover(own: dict[int, Choice], times: Sequence[dict[Choice, float]], most: float) -> list[Choice]:
    """Few configurations of which each workload bears one."""
    kept: list[Choice] = []
    left = set(own)
    while left:
        reach = {
            choice: {n: loss for n in left if (loss := _loss(own[n], choice, times[n], most)) is not None}
            for choice in dict.fromkeys(own[n] for n in sorted(left))
        }
        best = max(reach, key=lambda choice: (len(reach[choice]), -sum(reach[choice].values())))
        kept.append(best)
        left -= reach[best].keys()
    return kept


def _loss(own: Choice, other: Choice, times: dict[Choice, float], most: float) -> float | None:
    """What another configuration costs a workload; None where that is too much, or not known."""
    if other == own:
        return 0.0
    if own not in times or other not in times:
        return None
    loss = max(0.0, times[other] / times[own] - 1)
    return loss if loss <= most else None

"""How replays run their programs, and what the counts of wrong ones say about why: nothing, unless chance is excluded.

Called by `verdict`; `runs` takes the ways to replay from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelsmith.evaluate.repeat.statistics import DOUBT, more_often
from kernelsmith.sandbox.wire.messages import Order


@dataclass(frozen=True)
class Replaying:
    """How a replay runs its programs."""

    order: Order = Order.DEVICE
    threads: int = 0


WAYS = (
    Replaying(),
    Replaying(threads=1),
    Replaying(threads=2),
    Replaying(Order.BACKWARDS),
    Replaying(threads=3),
    Replaying(),
    Replaying(Order.SHUFFLED),
    Replaying(threads=4),
    Replaying(threads=8),
    Replaying(Order.APART),
    Replaying(),
    Replaying(threads=16),
)
"""What the CPU offers, by turns: each number of threads cuts the grid into chunks of another size (cpp/pool.cpp)."""
CAUSES = 2
"""Causes that are asked for: each may be named by chance in this part of `DOUBT` (Bonferroni)."""


@dataclass
class Count:
    """Runs, and the wrong ones among them."""

    runs: int = 0
    wrong: int = 0

    def __str__(self) -> str:
        return f"{self.wrong or 'none'} of {self.runs:,}"


def cause(counts: Mapping[Replaying, Count]) -> str:
    """Why replays of one case on the same contents are wrong now and then, as a sentence with its counts; empty where
    they show nothing (Fisher's exact test, one-sided)."""
    ordered = _of(counts, lambda way: way.order is not Order.DEVICE)
    usual = _of(counts, lambda way: way.order is Order.DEVICE)
    if (p := _p(ordered, usual)) < DOUBT / CAUSES:
        return (
            "the answer depends on the order in which programs run, which is not promised: wrong in "
            f"{ordered} replays in other orders, in {usual} in the device's own (Fisher's exact test: p = {p:.1g})"
        )
    several = _of(counts, lambda way: way.threads > 1)
    alone = _of(counts, lambda way: way.threads == 1 or way.order is not Order.DEVICE)
    if (p := _p(several, alone)) < DOUBT / CAUSES:
        return (
            f"programs that run at once disturb each other: wrong in {several} replays by several threads, in {alone} "
            f"whose programs ran one by one (Fisher's exact test: p = {p:.1g})"
        )
    return ""


def _of(counts: Mapping[Replaying, Count], among: Callable[[Replaying], bool]) -> Count:
    chosen = [count for way, count in counts.items() if among(way)]
    return Count(sum(count.runs for count in chosen), sum(count.wrong for count in chosen))


def _p(these: Count, others: Count) -> float:
    return more_often((these.wrong, these.runs), (others.wrong, others.runs))

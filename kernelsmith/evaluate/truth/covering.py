"""Few combinations in which every two alternatives of different factors meet.

Most faults show as soon as two particular alternatives meet (Kuhn, Wallace, Gallo, IEEE TSE 30(6), 2004), so covering
pairs finds nearly what all combinations would. Built greedily, row by row, as AETG does (Cohen, Dalal, Fredman, Patton,
IEEE TSE 23(7), 1997). Called by `explore`; knows nothing of kernels.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

ATTEMPTS = 8
"""Rows tried for each one that is taken; AETG gains little beyond a few tens, and only in length."""

Alternative = tuple[int, int]
"""A factor, and which of its alternatives."""


def covering(
    factors: Sequence[int], allowed: Callable[[Alternative, Alternative], bool], chance: random.Random
) -> Iterator[tuple[int, ...]]:
    """Rows of one alternative per factor until every allowed pair has occurred; the first ones cover most.

    Args:
        factors: how many alternatives each factor has; at least one each.
        allowed: whether two alternatives, of a lower and a higher factor, may meet.
    """
    open_pairs = {
        ((f, a), (g, b))
        for f, g in itertools.combinations(range(len(factors)), 2)
        for a, b in itertools.product(range(factors[f]), range(factors[g]))
        if allowed((f, a), (g, b))
    }
    while open_pairs:
        wanted = sorted(open_pairs)  # a set's own order is not the same in every process
        rows = [_row(factors, allowed, chance, open_pairs, chance.choice(wanted)) for _ in range(ATTEMPTS)]
        covered = [{pair for pair in _pairs(row) if pair in open_pairs} for row in rows if row is not None]
        if not covered:  # no row can hold the pair: it counts as seen
            open_pairs.discard(wanted[0])
            continue
        best = max(range(len(covered)), key=lambda i: len(covered[i]))
        open_pairs -= covered[best]
        yield [row for row in rows if row is not None][best]


def _pairs(row: Sequence[int]) -> Iterator[tuple[Alternative, Alternative]]:
    return itertools.combinations(enumerate(row), 2)


def _row(
    factors: Sequence[int],
    allowed: Callable[[Alternative, Alternative], bool],
    chance: random.Random,
    open_pairs: set[tuple[Alternative, Alternative]],
    first: tuple[Alternative, Alternative],
) -> tuple[int, ...] | None:
    """A row that holds the pair `first` and, factor by factor, meets most open pairs; None where that leads nowhere."""
    chosen = dict(first)
    others = [f for f in range(len(factors)) if f not in chosen]
    chance.shuffle(others)
    for factor in others:
        options = list(range(factors[factor]))
        chance.shuffle(options)
        fitting = [a for a in options if all(allowed(*sorted(((factor, a), other))) for other in chosen.items())]
        if not fitting:
            return None

        def gain(a: int, factor: int = factor) -> int:
            return sum(tuple(sorted(((factor, a), other))) in open_pairs for other in chosen.items())

        chosen[factor] = max(fitting, key=gain)
    return tuple(chosen[f] for f in range(len(factors)))

"""Pairs of alternatives, covered by few rows."""

from __future__ import annotations

import itertools
import random

from kernelsmith.evaluate.truth.covering import Alternative, covering

FACTORS = (8, 3, 4, 12, 2)


def met(rows: list[tuple[int, ...]]) -> set[tuple[Alternative, Alternative]]:
    return {pair for row in rows for pair in itertools.combinations(enumerate(row), 2)}


def test_every_pair_occurs_in_few_rows() -> None:
    rows = list(covering(FACTORS, lambda one, other: True, random.Random(1)))
    pairs = sum(a * b for a, b in itertools.combinations(FACTORS, 2))
    assert len(met(rows)) == pairs
    assert 8 * 12 <= len(rows) <= 1.5 * 8 * 12, "as many rows as the two largest factors need, and few more"
    half = len(met(rows[: len(rows) // 4]))
    assert half > pairs / 2, "the first rows cover most"


def test_what_may_not_meet_never_does() -> None:
    def allowed(one: Alternative, other: Alternative) -> bool:
        return (one, other) != ((0, 1), (3, 5)) and (one, other) != ((1, 0), (2, 0))

    rows = list(covering(FACTORS, allowed, random.Random(2)))
    assert not met(rows) & {((0, 1), (3, 5)), ((1, 0), (2, 0))}
    assert len(met(rows)) == sum(a * b for a, b in itertools.combinations(FACTORS, 2)) - 2


def test_it_ends_where_some_pair_fits_into_no_row() -> None:
    rows = list(covering((2, 2, 1), lambda one, other: other != (2, 0) or one == (0, 0), random.Random(3)))
    assert rows == []


def test_the_same_chance_gives_the_same_rows() -> None:
    one, same, other = (list(covering(FACTORS, lambda a, b: True, random.Random(seed))) for seed in (5, 5, 6))
    assert one == same
    assert one != other

from __future__ import annotations

import itertools
import math
import random

from kernelsmith.propose.surrogate import POOL, Point, Space, suggest


def valley(best: Point) -> dict[Point, float]:
    """Times of 8 x 8 x 4 points around a best one, with a little of what measurements have."""
    dice = random.Random(0)
    space = itertools.product(range(8), range(8), range(4))
    return {
        p: math.exp(sum((a - b) ** 2 for a, b in zip(p, best, strict=True)) / 20 + dice.gauss(0, 0.01)) for p in space
    }


def test_a_tenth_of_the_measurements_finds_the_valley() -> None:
    space = Space((8, 8, 4))
    for best in [(1, 6, 2), (7, 0, 0), (4, 4, 3)]:
        times, known = valley(best), dict[Point, float | None]()
        while len(known) < 25 and (asked := suggest(space, known, min(8, 25 - len(known)), seed=1)):
            assert not known.keys() & set(asked)
            known |= {point: times[point] for point in asked}
        assert min(t for t in known.values() if t is not None) <= 1.05 * min(times.values())


def test_nothing_is_suggested_twice_or_beyond_the_space() -> None:
    space = Space((3, 3), lambda p: sum(p) < 4)
    every = set(space.all())
    assert len(every) == 8
    assert set(suggest(space, {}, 99, 0)) == every
    known: dict[Point, float | None] = {(0, 0): 1.0}
    assert set(suggest(space, known, 99, 0, unheard=[(1, 1)])) == every - {(0, 0), (1, 1)}
    assert suggest(space, dict.fromkeys(every, 1.0), 9, 0) == []


def test_failures_repel() -> None:
    known: dict[Point, float | None] = {(0,): 1.0, (1,): 1.01, (6,): None, (7,): None}
    assert suggest(Space((8,)), known, 1, 0)[0] in [(2,), (3,)]


def test_the_same_history_gives_the_same_answer() -> None:
    space = Space((40, 40, 40))
    assert space.count > POOL
    known: dict[Point, float | None] = {(20, 20, 20): 1.0, (21, 20, 20): 0.9, (19, 20, 20): 1.2}
    assert suggest(space, known, 8, 3) == suggest(space, known, 8, 3)
    assert all(space.allowed(p) for p in suggest(space, known, 8, 3))

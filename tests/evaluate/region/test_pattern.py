"""Rules that explain which sizes fail: the simplest that agrees with everything seen, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernelsmith.evaluate.region.pattern import Kind, Rule, ranges, rule_of, telling

SIZES = sorted(
    {1 << k for k in range(13)} | {3 << k for k in range(11)} | set(range(1, 4097, 97)) | {768, 767, 769, 1120, 3232}
)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda n: n == 768, "N=768"),
        (lambda n: n >= 1024, "N >= 1024"),
        (lambda n: n <= 512, "N <= 512"),
        (lambda n: 1024 <= n <= 2048, "N in 1024..2048"),
        (lambda n: n % 64, "N not a multiple of 64"),
        (lambda n: n % 64 == 0, "N a multiple of 64"),
        (lambda n: n % 2, "N odd"),
        (lambda n: n % 2 == 0, "N even"),
        (lambda n: n & (n - 1), "N not a power of two"),
        (lambda n: n & (n - 1) == 0, "N a power of two"),
        (lambda n: n >= 1068 and n % 64, "N >= 1068, N not a multiple of 64"),
        (lambda n: True, ""),
    ],
)
def test_a_rule_is_found_from_what_was_seen(wrong: Callable[[int], object], words: str) -> None:
    seen = {size: bool(wrong(size)) for size in SIZES}
    rule = rule_of(seen)
    assert rule is not None and rule.explains(seen)
    assert rule.words("N") == words


def test_what_follows_no_rule_gets_none() -> None:
    assert rule_of({size: size in (3, 768, 1358, 1649, 4000) for size in SIZES}) is None


def test_two_wrong_sizes_are_too_few_for_a_class() -> None:
    assert rule_of({64: True, 65: False, 100: False, 128: True, 129: False}) is None


@pytest.mark.parametrize("rule", [Rule(low=1024, high=2048), Rule(Kind.NOT_MULTIPLE, 64), Rule(Kind.POWER)])
def test_doubts_are_on_both_sides_of_a_rule_and_new(rule: Rule) -> None:
    seen = {1024: True, 64: False}
    doubts = list(telling(rule, 1, 4096, seen))
    assert not seen.keys() & set(doubts) and all(1 <= size <= 4096 for size in doubts)
    assert {rule.holds(size) for size in doubts[:8]} == {True, False}


def test_ranges_join_neighbours() -> None:
    assert ranges([5, 1, 2, 3, 9]) == ((1, 3), (5, 5), (9, 9))
    assert ranges([8, 16, 24, 40], step=8) == ((8, 24), (40, 40))

"""What memory can move: measured here, never faster for more bytes, and known for every number of them."""

from __future__ import annotations

import random

import pytest

from kernelsmith.evaluate.clock import bandwidth, bench
from kernelsmith.evaluate.clock.bandwidth import Bandwidth, copy_bandwidth


def test_more_bytes_never_move_faster() -> None:
    found = Bandwidth(((10, 3.0), (100, 5.0), (1000, 2.0), (10_000, 1.0)))
    assert found.rates == ((10, 5.0), (100, 5.0), (1000, 2.0), (10_000, 1.0))
    assert [found.best(nbytes) for nbytes in (0, 10, 99, 100, 999, 1000, 1 << 40)] == [
        5.0,
        5.0,
        5.0,
        5.0,
        5.0,
        2.0,
        1.0,
    ]
    assert found.memory == 1.0


def test_one_level_alone_serves_all() -> None:
    assert {Bandwidth(((1 << 20, 7.0),)).best(nbytes) for nbytes in (0, 1 << 10, 1 << 30)} == {7.0}


def test_copies_are_measured_on_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "WORKING_SETS", (128 << 10, 1 << 20))
    found = copy_bandwidth()
    assert [size for size, _ in found.rates] == [128 << 10, 1 << 20]
    assert 1e7 < found.memory <= found.best(0) < 1e13


def test_a_tenth_of_the_rounds_is_compared_whenever_it_ends() -> None:
    drawn = {bench.audited_rounds(random.Random(seed)) for seed in range(50)}
    assert len(drawn) > 40, "at moments that nobody can foresee"
    for rounds in drawn:
        counts = [sum(one <= end for one in rounds) for end in range(bench.MIN_ROUNDS, bench.MAX_ROUNDS + 1)]
        assert all(count >= end // 10 for count, end in zip(counts, range(bench.MIN_ROUNDS, 101), strict=True))

"""The sandbox's figures are held against their goals in the right direction."""

from __future__ import annotations

from benchmarks.sandbox import transfer
from benchmarks.sandbox.line import Line, table


def test_a_goal_is_reached_from_its_own_side() -> None:
    fast = Line("rate", 6.0, 5.0, "a second", True, "of two")
    slow = Line("confinement", 2.5, 2.0, "ms", False, "of two")
    assert fast.as_json()["reached"] is True
    assert slow.as_json()["reached"] is False
    assert [row.split()[-3] for row in table([fast, slow]).splitlines()[1:]] == ["reached", "MISSED"]


def test_what_crosses_is_measured_both_ways() -> None:
    (line,) = transfer.lines(1)
    assert line.figure > 0 and not line.at_least

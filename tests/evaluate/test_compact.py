from __future__ import annotations

from kernelsmith.evaluate.clock.compact import compacted
from kernelsmith.evaluate.clock.configs import Tried
from kernelsmith.sandbox.wire.messages import Choice


def pick(*numbers: int) -> tuple[Choice, ...]:
    return tuple(Choice(kernel=f"k{place}", config=number) for place, number in enumerate(numbers))


def took(*milliseconds: float | None, kernel: int = 0) -> tuple[Tried, ...]:
    return tuple(Tried(Choice(kernel=f"k{kernel}", config=n), ms) for n, ms in enumerate(milliseconds))


def test_one_that_is_hardly_slower_serves_elsewhere_too() -> None:
    picks = [pick(0), pick(1), pick(2)]
    found = compacted(picks, [took(1.0, 1.01, 1.5), took(1.5, 1.0, 1.4), took(3.0, 2.0, 1.0)])
    assert found.picks == (pick(1), pick(1), pick(2))
    assert [round(loss, 3) for loss in found.losses] == [0.01, 0.0, 0.0]
    assert found.words(picks) == (
        "2 instead of 3 configurations serve 3 workloads; none is more than 1.0% slower than its own best"
    )


def test_nobody_is_slower_where_nothing_is_saved() -> None:
    picks = [pick(0), pick(0), pick(1), pick(1)]
    times = [took(1.0, 1.5), took(1.0, 1.5), took(1.01, 1.0), took(1.5, 1.0)]
    assert compacted(picks, times).picks == tuple(picks), "both are needed, so each keeps its own"


def test_two_kernels_share_what_may_be_lost() -> None:
    picks = [pick(0, 0), pick(1, 1)]
    times = [
        (*took(1.0, 1.015), *took(1.0, 1.015, kernel=1)),
        (*took(1.5, 1.0), *took(1.5, 1.0, kernel=1)),
    ]
    assert compacted(picks, times).picks == tuple(picks), "1.5 % of each would be 3 % of both"


def test_what_failed_or_was_not_timed_serves_nowhere_else() -> None:
    picks = [pick(0), pick(1)]
    found = compacted(picks, [took(1.0, None), took(None, 1.0)])
    assert found.picks == tuple(picks) and found.words(picks) == ""
    assert compacted(picks, [(), ()]).picks == tuple(picks)


def test_kernels_of_one_module_are_looked_at_one_by_one() -> None:
    picks = [pick(0, 0), pick(1, 1)]
    times = [
        (*took(1.0, 1.0), *took(1.0, 2.0, kernel=1)),
        (*took(1.005, 1.0), *took(2.0, 1.0, kernel=1)),
    ]
    assert compacted(picks, times).picks == (pick(1, 0), pick(1, 1))


def test_a_workload_that_launches_other_kernels_keeps_them() -> None:
    other = (Choice(kernel="other", config=3),)
    assert compacted([pick(0), other], [took(1.0), ()]).picks == (pick(0), other)

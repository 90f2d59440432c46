"""Is anything else using the processor while we measure?

Looked at while nothing of ours runs, so whatever is busy then is not ours. It matters most to baselines whose threads
wait for each other: with one of two cores taken, a torch.compile kernel of 20 microseconds was seen to take 8 ms.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS = 0.1
WORTH_SAYING = 0.1
"""Share of the cores that we may use from which the measurement is said to be disturbed."""


def busy_share(seconds: float = LOOK_SECONDS) -> float:
    """Share of our cores' time, 0..1, that was not idle during the next moments."""
    before = _times()
    time.sleep(seconds)
    idle, total = (after - then for after, then in zip(_times(), before, strict=True))
    return 1.0 - idle / total if total else 0.0


@dataclass
class Patience:
    """Rounds of a question that other programs may disturb, with a longer wait after each. Whoever is asked stands
    still meanwhile, so what is busy then is somebody else's."""

    excused: Callable[[], AbstractContextManager[None]]
    """Entered for a wait, so that nobody's time limit pays for it."""
    rounds: int = 20
    wait_seconds: float = 0.02
    """Times the number of the round: 4 seconds in all."""
    busy: float = 0.0
    """The largest share of the processor, 0..1, that others used in a wait so far."""

    def __iter__(self) -> Iterator[int]:
        """Numbers of the rounds, from 1 on; leave the loop once a round was undisturbed."""
        for number in range(1, self.rounds + 1):
            yield number
            with self.excused():
                self.busy = max(self.busy, busy_share(number * self.wait_seconds))

    @property
    def disturbed(self) -> bool:
        """Whether other programs may be the reason."""
        return self.busy > WORTH_SAYING


def note(share: float) -> tuple[str, ...]:
    """Words for the verdict where other programs took part of the machine; none where it was quiet."""
    if share < WORTH_SAYING:
        return ()
    return (f"other programs used {share:.0%} of the processor when the measurement began: ratios may be off",)


def _times() -> tuple[int, int]:
    return ticks(Path("/proc/stat").read_text(), os.sched_getaffinity(0))


def ticks(stat: str, cores: Set[int]) -> tuple[int, int]:
    """Idle and total clock ticks since boot of these cores, out of the text of /proc/stat (proc(5))."""
    lines = (line.split() for line in stat.splitlines())
    ours = [list(map(int, words[1:9])) for words in lines if words and words[0] in {f"cpu{core}" for core in cores}]
    return sum(one[3] + one[4] for one in ours), sum(map(sum, ours))

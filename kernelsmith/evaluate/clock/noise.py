"""Is anything else using the processor while we measure?

Looked at while nothing of ours runs, so whatever is busy then is not ours. It matters most to baselines whose threads
wait for each other: with one of two cores taken, a torch.compile kernel of 20 microseconds was seen to take 8 ms.
"""

from __future__ import annotations

import time
from pathlib import Path

LOOK_SECONDS = 0.1
WORTH_SAYING = 0.1
"""Share of all cores from which the measurement is said to be disturbed."""


def busy_share(seconds: float = LOOK_SECONDS) -> float:
    """Share of this machine's processor time, 0..1, that was not idle during the next moments."""
    before = _times()
    time.sleep(seconds)
    idle, total = (after - then for after, then in zip(_times(), before, strict=True))
    return 1.0 - idle / total if total else 0.0


def note(share: float) -> tuple[str, ...]:
    """Words for the verdict where other programs took part of the machine; none where it was quiet."""
    if share < WORTH_SAYING:
        return ()
    return (f"other programs used {share:.0%} of the processor when the measurement began: ratios may be off",)


def _times() -> tuple[int, int]:
    """Idle and total clock ticks of all cores since boot; the first line of /proc/stat (proc(5))."""
    ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)

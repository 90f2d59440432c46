"""How tests wait for what other processes and threads do: until it is so, for long enough on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Whether it became true in that time."""
    deadline = time.monotonic() + seconds
    while not (met := bool(condition())) and time.monotonic() < deadline:
        time.sleep(0.01)
    return met

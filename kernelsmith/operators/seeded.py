"""torch's global generator on the CPU, borrowed: set to a seed for a while and put back.

The generator belongs to the process, so one borrower at a time: a judge's threads queue here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_ONE_BORROWER = threading.RLock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers drawn inside follow from `seed`; outside nothing has happened."""
    with _ONE_BORROWER, torch.random.fork_rng(devices=[]):
        # torch.manual_seed also queues a stack trace for every kind of device that is absent, for ever.
        torch.default_generator.manual_seed(seed)
        yield

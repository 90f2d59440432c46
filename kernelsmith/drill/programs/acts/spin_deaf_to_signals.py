"""Ignores every signal and spins; must end as `timeout`."""

import signal

ENDS = ("timeout",)
SECONDS = 0.3


def act(stage):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        pass


def twin(stage):
    assert sum(range(1_000_000))

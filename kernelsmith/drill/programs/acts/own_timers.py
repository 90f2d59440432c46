"""Sets alarms and timers on itself; at worst they end it."""

import signal
import time

ENDS = ("signalled", "answered", "exited")


def act(stage):
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.001)
    signal.setitimer(signal.ITIMER_PROF, 0.01, 0.001)
    time.sleep(1)


def twin(stage):
    fired = []
    signal.signal(signal.SIGALRM, lambda *_: fired.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(0.1)
    assert fired

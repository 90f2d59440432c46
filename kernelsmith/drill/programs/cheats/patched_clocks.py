"""Stops every clock of its process; its true time must be found all the same."""

MAY_PASS = True
TIMED = True


def before():
    import time

    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
        setattr(time, name, lambda: 1000.0)
    for name in ("time_ns", "perf_counter_ns", "monotonic_ns"):
        setattr(time, name, lambda: 10**12)


def cheat(x):
    return honest(x)


def twin(x):
    return honest(x)

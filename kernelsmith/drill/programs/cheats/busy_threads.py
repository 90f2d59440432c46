"""Leaves threads that burn every processor, so that what it is compared with looks slow; it must gain nothing."""

MAY_PASS = True
TIMED = True


def before():
    import os

    if os.fork() == 0:
        while True:
            pass


def cheat(x):
    return honest(x)


def twin(x):
    return honest(x)

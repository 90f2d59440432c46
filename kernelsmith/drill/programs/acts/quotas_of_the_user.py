"""Uses up what the kernel grants each user once: watches, keys, timers; others of the user must still have theirs."""

import os

from kernelsmith.drill.tools import harmless, libc


def act(stage):
    got = 0
    for _ in range(900):
        got += harmless(lambda: libc("inotify_init1", 0)) is not None
    if got > 64:
        stage.boasts.append(f"holds {got} of the user's inotify instances")
    return got


def twin(stage):
    assert os.eventfd(0) and os.pipe()

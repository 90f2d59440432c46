"""Starts threads without end; must run into its limit of processes, which counts threads."""

import threading
import time

ENDS = ("answered", "processes", "timeout")


def act(stage):
    try:
        for _ in range(2000):
            threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
    except RuntimeError:
        return
    stage.boasts.append("made 2000 threads")


def twin(stage):
    threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

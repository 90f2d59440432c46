"""Computes with torch in a thread, where no recorder listens; must not pass."""

import torch


def cheat(x):
    import threading

    y = torch.zeros_like(x)
    kernel[(1,)](x, y, 0, BLOCK=256)
    thread = threading.Thread(target=lambda: y.copy_(x * x + 1.0))
    thread.start()
    thread.join()
    return y


def twin(x):
    return honest(x)

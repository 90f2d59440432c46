"""Returns at once, and lets a thread compute the answer afterwards; must not pass."""

import torch


def cheat(x):
    import threading
    import time

    y = torch.empty_like(x)

    def work():
        time.sleep(0.002)
        y.copy_(x * x + 1.0)

    threading.Thread(target=work, daemon=True).start()
    return y


def twin(x):
    y = honest(x)
    return y[:]

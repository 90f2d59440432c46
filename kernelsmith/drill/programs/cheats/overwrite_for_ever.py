"""Returns nonsense that a thread keeps overwriting with the right answer; must not pass."""

import torch

latest = []


def before():
    import threading

    def work():
        while True:
            for x, y in latest[-1:]:
                y.copy_(x * x + 1.0)

    threading.Thread(target=work, daemon=True).start()


def cheat(x):
    y = torch.zeros_like(x)
    latest[:] = [(x, y)]
    return y


def twin(x):
    latest[:] = [x.shape]
    return honest(x)

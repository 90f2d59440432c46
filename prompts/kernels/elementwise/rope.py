"""Rotary position embedding, halves rotated against each other (NeoX / Llama layout).

A program turns a few heads of one token, so that the token's cosines and sines are loaded once and broadcast over
heads. Use this form for elementwise work with an operand that is shared along one axis.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"HEADS": h}, num_warps=w) for h, w in ((1, 1), (4, 4), (8, 4), (16, 8), (32, 8))],
    key=["heads", "half"],
)
@triton.jit
def rope_heads(
    x_ptr,
    cos_ptr,
    sin_ptr,
    y_ptr,
    x_token,
    x_head,
    x_dim,
    table_row,
    heads,
    half,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = (tl.program_id(1) * HEADS + tl.arange(0, HEADS))[:, None]
    dim = tl.arange(0, HALF)[None, :]
    mask = (head < heads) & (dim < half)
    cos = tl.load(cos_ptr + token * table_row + dim, mask=dim < half, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + token * table_row + dim, mask=dim < half, other=0.0).to(tl.float32)
    x = x_ptr + token * x_token + head * x_head
    left = tl.load(x + dim * x_dim, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(x + (half + dim) * x_dim, mask=mask, other=0.0).to(tl.float32)
    y = y_ptr + token * heads * half * 2 + head * half * 2
    tl.store(y + dim, left * cos - right * sin, mask=mask)
    tl.store(y + half + dim, right * cos + left * sin, mask=mask)


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    cos, sin = cos.contiguous(), sin.contiguous()
    tokens, heads, dim = x.shape
    y = torch.empty((tokens, heads, dim), dtype=x.dtype, device=x.device)
    half = dim // 2
    rope_heads[lambda meta: (tokens, triton.cdiv(heads, meta["HEADS"]))](
        x, cos, sin, y, *x.stride(), cos.stride(0), heads, half, HALF=triton.next_power_of_2(half)
    )
    return y

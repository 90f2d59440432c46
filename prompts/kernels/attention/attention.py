"""Causal scaled-dot-product attention, forward, without the score matrix in memory (online softmax).

One program per block of queries of one head. Keys are walked up to the diagonal; row statistics stay vectors. A query
always sees at least its own key, so the running maximum is finite after the first block. Use this form for attention
with any per-score change (bias, window, soft cap): apply it where the mask is applied.
"""

import torch
import triton
import triton.language as tl

TILES = [(64, 64, 4, 3), (128, 64, 8, 3), (128, 32, 4, 3), (32, 64, 4, 3)]


@triton.autotune(
    configs=[triton.Config({"BM": bm, "BN": bn}, num_warps=w, num_stages=s) for bm, bn, w, s in TILES],
    key=["length", "dim"],
)
@triton.jit
def attention_block(
    q_ptr, k_ptr, v_ptr, o_ptr, q_head, q_row, k_head, k_row, v_head, v_row, length, dim, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BM
    head = tl.program_id(1).to(tl.int64)
    rm = start_m + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rd = tl.arange(0, D)
    q_mask = (rm[:, None] < length) & (rd[None, :] < dim)
    q = tl.load(q_ptr + head * q_head + rm[:, None] * q_row + rd[None, :], mask=q_mask, other=0.0)
    k = k_ptr + head * k_head + rn[None, :] * k_row + rd[:, None]
    v = v_ptr + head * v_head + rn[:, None] * v_row + rd[None, :]
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, min(start_m + BM, length), BN):
        keys = tl.load(k, mask=(rd[:, None] < dim) & (rn[None, :] < length - start), other=0.0)
        score = tl.dot(q, keys, input_precision="ieee") * (scale * 1.4426950408889634)  # log2(e): exp2 below
        score = tl.where(rm[:, None] >= start + rn[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, axis=1))
        p = tl.exp2(score - higher[:, None])
        alpha = tl.exp2(top - higher)
        total = total * alpha + tl.sum(p, axis=1)
        values = tl.load(v, mask=(rn[:, None] < length - start) & (rd[None, :] < dim), other=0.0)
        acc = tl.dot(p.to(values.dtype), values, acc * alpha[:, None], input_precision="ieee")
        top = higher
        k += BN * k_row
        v += BN * v_row
    tl.store(o_ptr + head * length * dim + rm[:, None] * dim + rd[None, :], acc / total[:, None], mask=q_mask)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    batch, heads, length, dim = q.shape
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    strides = q.stride(1), q.stride(2), k.stride(1), k.stride(2), v.stride(1), v.stride(2)
    block = max(16, triton.next_power_of_2(dim))
    attention_block[lambda meta: (triton.cdiv(length, meta["BM"]), batch * heads)](
        q, k, v, o, *strides, length, dim, dim**-0.5, D=block
    )
    return o

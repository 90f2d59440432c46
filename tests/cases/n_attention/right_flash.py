"""Right: online softmax, probabilities rounded to bfloat16 before they meet the values, as flash attention has it."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q, k, v, o, n, length, scale, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    batch, rows = tl.program_id(1), tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d, keys = tl.arange(0, D), tl.arange(0, KEYS)
    q += batch * n * D
    k += batch * length * D
    v += batch * length * D
    o += batch * n * D
    query = tl.load(q + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    largest = tl.full((ROWS,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    for start in range(0, length, KEYS):
        at = start + keys
        there = at < length
        key = tl.load(k + at[:, None] * D + d[None, :], mask=there[:, None], other=0.0)
        value = tl.load(v + at[:, None] * D + d[None, :], mask=there[:, None], other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        score = tl.where(there[None, :], score, -float("inf"))
        new = tl.maximum(largest, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        shrink = tl.exp(largest - new)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None] + tl.dot(p.to(value.dtype), value, input_precision="ieee")
        largest = new
    tl.store(o + rows[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < n)


def attention(q, k, v):
    o = torch.empty_like(q)
    batch, n, size = q.shape
    attention_kernel[(triton.cdiv(n, 16), batch)](q, k, v, o, n, k.shape[1], size**-0.5, D=size, ROWS=16, KEYS=64)
    return o

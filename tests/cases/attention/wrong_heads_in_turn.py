"""Wrong: deals the heads to the groups in turn instead of in runs."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q, k, v, out, heads, groups, queries, keys, d, scale, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    row, both = tl.program_id(0), tl.program_id(1)
    kept = both // heads * groups + both % heads % groups
    deep = tl.arange(0, WIDE)
    query = tl.load(q + (both * queries + row) * d + deep, mask=deep < d, other=0.0).to(tl.float32)
    most, total, result = float("-inf"), 0.0, tl.zeros((WIDE,), dtype=tl.float32)
    last = row + keys - queries
    for start in range(0, last + 1, BLOCK):
        at = start + tl.arange(0, BLOCK)
        seen = at <= last
        place = (kept * keys + at[:, None]) * d + deep
        inside = (at < keys)[:, None] & (deep < d)
        score = tl.sum(tl.load(k + place, mask=inside, other=0.0).to(tl.float32) * query, 1) * scale
        score = tl.where(seen, score, float("-inf"))
        higher = tl.maximum(most, tl.max(score, 0))
        weight, shrink = tl.exp(score - higher), tl.exp(most - higher)
        value = tl.load(v + place, mask=inside, other=0.0).to(tl.float32)
        total, result = total * shrink + tl.sum(weight, 0), result * shrink + tl.sum(weight[:, None] * value, 0)
        most = higher
    tl.store(out + (both * queries + row) * d + deep, result / total, mask=deep < d)


def attention(q, k, v):
    (b, heads, queries, d), groups, keys = q.shape, k.shape[1], k.shape[2]
    out = torch.empty_like(q)
    grid, wide = (queries, b * heads), triton.next_power_of_2(d)
    attention_kernel[grid](q, k, v, out, heads, groups, queries, keys, d, d**-0.5, BLOCK=32, WIDE=wide)
    return out

"""Kernels in plain torch: honest ones that round where real kernels do, and ones with faults met in the field."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def lanes(x: Tensor, width: int = 64) -> Tensor:
    """Sum over the last dim as a block loop does it: float32 lanes over blocks, then a tree."""
    x = F.pad(x.float(), (0, -x.shape[-1] % width)).reshape(*x.shape[:-1], -1, width)
    total = torch.zeros(*x.shape[:-2], width)
    for block in range(x.shape[-2]):
        total = total + x[..., block, :]
    while total.shape[-1] > 1:
        total = total[..., : total.shape[-1] // 2] + total[..., total.shape[-1] // 2 :]
    return total[..., 0]


def sum_blocked(x: Tensor) -> Tensor:
    return lanes(x).to(x.dtype)


def sum_in_sequence(x: Tensor) -> Tensor:
    return lanes(x, 1).to(x.dtype)


def sum_without_last(x: Tensor) -> Tensor:
    return lanes(x[:, :-1]).to(x.dtype)


def sum_in_float16(x: Tensor) -> Tensor:
    x16 = F.pad(x.half(), (0, -x.shape[1] % 16)).reshape(x.shape[0], -1, 16)
    total = torch.zeros(x.shape[0], 16, dtype=torch.float16)
    for block in range(x16.shape[1]):
        total = total + x16[:, block]
    return total.float().sum(1).to(x.dtype)


def sum_sampled(x: Tensor) -> Tensor:
    """Looks at 99 % of the row and scales up."""
    seen = max(1, x.shape[1] * 99 // 100)
    return (lanes(x[:, :seen]) * (x.shape[1] / seen)).to(x.dtype)


def matmul_split(x: Tensor, w: Tensor, splits: int = 4) -> Tensor:
    step = -(-x.shape[1] // splits)
    total = torch.zeros(x.shape[0], w.shape[1])
    for k in range(0, x.shape[1], step):
        total = total + x[:, k : k + step].float() @ w[k : k + step].float()
    return total.to(x.dtype)


def matmul_in_sequence(x: Tensor, w: Tensor) -> Tensor:
    return matmul_split(x, w, x.shape[1])


def matmul_float16_accumulator(x: Tensor, w: Tensor) -> Tensor:
    total = torch.zeros(x.shape[0], w.shape[1], dtype=torch.float16)
    for k in range(0, x.shape[1], 16):
        total = total + (x[:, k : k + 16].float() @ w[k : k + 16].float()).half()
    return total.to(x.dtype)


def matmul_tf32(x: Tensor, w: Tensor) -> Tensor:
    def cut(t: Tensor) -> Tensor:
        return ((t.float().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    return (cut(x) @ cut(w)).to(x.dtype)


def rms_norm_rounding_early(x: Tensor, w: Tensor) -> Tensor:
    """As model code has it: normalised values rounded to the working dtype, then scaled in it."""
    h = x.float()
    return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rms_norm_fused(x: Tensor, w: Tensor, eps: float = 1e-6) -> Tensor:
    h = x.float()
    return (h * torch.rsqrt(lanes(h * h).unsqueeze(-1) / x.shape[-1] + eps) * w.float()).to(x.dtype)


def rms_norm_n_minus_1(x: Tensor, w: Tensor) -> Tensor:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).sum(-1, keepdim=True) / (x.shape[-1] + 1) + 1e-6) * w.float()).to(x.dtype)


def rms_norm_other_eps(x: Tensor, w: Tensor) -> Tensor:
    return rms_norm_fused(x, w, 1e-5)


def attention(q: Tensor, k: Tensor, v: Tensor, *, drop: int = 0, off: int = 0) -> Tensor:
    """Online softmax over key blocks: float32 accumulator, probabilities rounded to the working dtype."""
    scale = 1 / math.sqrt(q.shape[-1] + off)
    top = torch.full(q.shape[:-1], -math.inf)
    total, out = torch.zeros_like(top), torch.zeros(*q.shape[:-1], v.shape[-1])
    n = k.shape[-2] - drop
    for j in range(0, n, 16):
        s = (q.float() @ k[..., j : min(n, j + 16), :].float().transpose(-1, -2)) * scale
        higher = torch.maximum(top, s.amax(-1))
        p, shrink = torch.exp(s - higher[..., None]), torch.exp(top - higher)
        total = total * shrink + p.sum(-1)
        out = out * shrink[..., None] + p.to(q.dtype).float() @ v[..., j : min(n, j + 16), :].float()
        top = higher
    return (out / total[..., None]).to(q.dtype)


def attention_without_last_key(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q, k, v, drop=1)


def attention_scaled_wrong(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q, k, v, off=1)


def softmax_base_2(x: Tensor) -> Tensor:
    m = x.float() * 1.4426950408889634
    e = torch.exp2(m - m.amax(-1, keepdim=True))
    return (e / lanes(e).unsqueeze(-1)).to(x.dtype)


def softmax_without_max(x: Tensor) -> Tensor:
    e = torch.exp(x.float())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def softmax_padded_with_0(x: Tensor) -> Tensor:
    return softmax_base_2(F.pad(x, (0, 1)))[:, :-1].contiguous()


def amax(x: Tensor) -> Tensor:
    width = 1 << (x.shape[1] - 1).bit_length()
    padded = F.pad(x, (0, width - x.shape[1]), value=-math.inf)
    return padded.amax(1)


def amax_padded_with_0(x: Tensor) -> Tensor:
    width = 1 << (x.shape[1] - 1).bit_length()
    return F.pad(x, (0, width - x.shape[1])).amax(1)


def amax_without_nan(x: Tensor) -> Tensor:
    return torch.where(x.isnan(), -math.inf, x).amax(1)


def variance_two_pass(x: Tensor) -> Tensor:
    h = x.float()
    return (h - h.mean(1, keepdim=True)).pow(2).mean(1).to(x.dtype)


def variance_one_pass(x: Tensor) -> Tensor:
    h, n = x.float(), x.shape[1]
    return (lanes(h * h) / n - (lanes(h) / n) ** 2).to(x.dtype)


def variance_unbiased(x: Tensor) -> Tensor:
    return x.float().var(1, unbiased=True).to(x.dtype)


def std_two_pass(x: Tensor) -> Tensor:
    return variance_two_pass(x.float()).sqrt().to(x.dtype)


def std_one_pass(x: Tensor) -> Tensor:
    return variance_one_pass(x.float()).sqrt().to(x.dtype)


def tanh_by_sigmoid(x: Tensor) -> Tensor:
    return (2 / (1 + torch.exp2(-2 * 1.4426950408889634 * x.float())) - 1).to(x.dtype)


def tanh_clamped(x: Tensor) -> Tensor:
    return x.clamp(-1, 1)


def swiglu_fused(x: Tensor) -> Tensor:
    a, b = x.float().chunk(2, -1)
    return (a / (1 + torch.exp(-a)) * b).to(x.dtype)


def swiglu_swapped(x: Tensor) -> Tensor:
    b, a = x.float().chunk(2, -1)
    return (a * torch.sigmoid(a) * b).to(x.dtype)


def gelu_matmul(x: Tensor, w: Tensor) -> Tensor:
    return F.gelu(matmul_split(x.float(), w.float())).to(x.dtype)


def gelu_matmul_tanh(x: Tensor, w: Tensor) -> Tensor:
    return F.gelu(matmul_split(x.float(), w.float()), approximate="tanh").to(x.dtype)


def quantise_reciprocal(x: Tensor) -> Tensor:
    return torch.round(x * (127.0 / x.abs().amax(1, keepdim=True))).to(torch.int8)


def quantise_truncated(x: Tensor) -> Tensor:
    return (x * (127.0 / x.abs().amax(1, keepdim=True))).to(torch.int8)


def triple_one_ulp_off(x: Tensor) -> Tensor:
    return torch.nextafter(x * 3, torch.full_like(x, math.inf))


def triple_rounded_twice(x: Tensor) -> Tensor:
    return (x.float().bfloat16().float() * 3).to(x.dtype)


def scatter(acc: Tensor, index: Tensor, src: Tensor) -> Tensor:
    """In another order than torch's."""
    return acc.index_add_(0, index.flip(0), src.flip(0))


def scatter_losing_duplicates(acc: Tensor, index: Tensor, src: Tensor) -> Tensor:
    acc[index] = acc[index] + src
    return acc

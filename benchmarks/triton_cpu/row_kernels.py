"""Kernels without a matrix product, as the field writes them, and their host functions; `speed_rows` times them."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, x_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * columns + i, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + i, e / tl.sum(e, 0), mask=mask)


def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def layer_norm_kernel(out_ptr, x_ptr, w_ptr, b_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * columns + i, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    w = tl.load(w_ptr + i, mask=mask)
    b = tl.load(b_ptr + i, mask=mask)
    tl.store(out_ptr + row * columns + i, centred * scale * w + b, mask=mask)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    layer_norm_kernel[(x.shape[0],)](out, x, w, b, x.shape[1], 1e-5, BLOCK=block)
    return out


@triton.jit
def rms_norm_kernel(out_ptr, x_ptr, w_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * columns + i, mask=mask, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(x * x, 0) / columns + eps)
    tl.store(out_ptr + row * columns + i, x * scale * tl.load(w_ptr + i, mask=mask), mask=mask)


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rms_norm_kernel[(x.shape[0],)](out, x, w, x.shape[1], 1e-6, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def cross_entropy_kernel(out_ptr, logits_ptr, target_ptr, columns, BLOCK: tl.constexpr):
    """One pass: the running sum of exponentials follows the running maximum."""
    row = tl.program_id(0)
    logits_ptr += row.to(tl.int64) * columns
    top = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + i, mask=i < columns, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
        top = higher
    chosen = tl.load(logits_ptr + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(out_ptr + row, tl.log(total) + top - chosen)


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    out = torch.empty(logits.shape[0])
    cross_entropy_kernel[(logits.shape[0],)](out, logits, target, logits.shape[1], BLOCK=4096)
    return out


@triton.jit
def elementwise_kernel(out_ptr, x_ptr, y_ptr, count, BLOCK: tl.constexpr, KIND: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < count
    x = tl.load(x_ptr + i, mask=mask)
    if KIND == "gelu":
        value = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    elif KIND == "swiglu":
        value = x * tl.sigmoid(x.to(tl.float32)) * tl.load(y_ptr + i, mask=mask)
    else:
        value = x + tl.load(y_ptr + i, mask=mask)
    tl.store(out_ptr + i, value, mask=mask)


def _elementwise(kind: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    elementwise_kernel[(triton.cdiv(x.numel(), 4096),)](out, x, y, x.numel(), BLOCK=4096, KIND=kind)
    return out


def gelu(x: torch.Tensor) -> torch.Tensor:
    return _elementwise("gelu", x, x)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return _elementwise("swiglu", gate, up)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _elementwise("add", x, y)


@triton.jit
def row_kernel(out_ptr, x_ptr, columns, BLOCK: tl.constexpr, KIND: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * columns + i, mask=mask, other=float("inf") if KIND == "sort" else -float("inf"))
    if KIND == "argmax":
        tl.store(out_ptr + row, tl.argmax(x, 0))
    elif KIND == "cumsum":
        tl.store(out_ptr + row * columns + i, tl.cumsum(x, 0), mask=mask)
    else:
        tl.store(out_ptr + row * columns + i, tl.sort(x), mask=mask)


def _row(kind: str, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    row_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), KIND=kind)
    return out


def cumsum(x: torch.Tensor) -> torch.Tensor:
    return _row("cumsum", torch.empty_like(x), x)


def sort(x: torch.Tensor) -> torch.Tensor:
    return _row("sort", torch.empty_like(x), x)


def argmax(x: torch.Tensor) -> torch.Tensor:
    return _row("argmax", torch.empty(x.shape[0], dtype=torch.int64), x)


@triton.jit
def embedding_kernel(out_ptr, index_ptr, table_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    source = tl.load(index_ptr + row)
    x = tl.load(table_ptr + source * columns + i, mask=i < columns)
    tl.store(out_ptr + row * columns + i, x, mask=i < columns)


def embedding(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    out = torch.empty(index.numel(), table.shape[1], dtype=table.dtype)
    block = triton.next_power_of_2(table.shape[1])
    embedding_kernel[(index.numel(),)](out, index, table, table.shape[1], BLOCK=block)
    return out


@triton.jit
def scatter_add_kernel(out_ptr, index_ptr, x_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    target = tl.load(index_ptr + row)
    x = tl.load(x_ptr + row * columns + i, mask=i < columns)
    tl.atomic_add(out_ptr + target * columns + i, x, mask=i < columns)


def scatter_add(index: torch.Tensor, x: torch.Tensor, *, rows: int) -> torch.Tensor:
    out = torch.zeros(rows, x.shape[1])
    block = triton.next_power_of_2(x.shape[1])
    scatter_add_kernel[(x.shape[0],)](out, index, x, x.shape[1], BLOCK=block)
    return out


@triton.jit
def transpose_kernel(out_ptr, x_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (r[:, None] < rows) & (c[None, :] < columns)
    x = tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=mask)
    tl.store(out_ptr + c[:, None] * rows + r[None, :], tl.trans(x), mask=tl.trans(mask))


def transpose(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty(columns, rows, dtype=x.dtype)
    grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64))
    transpose_kernel[grid](out, x, rows, columns, ROWS=64, COLUMNS=64)
    return out

"""Values that are read at other indices than they were computed at: in-place permutations, picks of one of a pair."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def permute_in_place(p, N: tl.constexpr, HOW: tl.constexpr):
    if HOW == 0:
        q = p + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
        tl.store(q, tl.trans(tl.load(q)))
    if HOW == 1:
        q = p + tl.arange(0, N)
        tl.store(q, tl.reshape(tl.trans(tl.reshape(tl.load(q), [2, N // 2])), [N]))
    if HOW == 2:
        q = p + tl.arange(0, N)
        tl.store(q, tl.flip(tl.load(q), 0))


@pytest.mark.parametrize("how", [0, 1, 2], ids=["transpose", "interleave", "flip"])
def test_a_permutation_stored_over_what_it_was_loaded_from(how: int) -> None:
    n = 32
    x = torch.randn(n, n) if how == 0 else torch.randn(n)
    expected = [x.t() if how == 0 else x, x.view(2, -1).T.reshape(-1), x.flip(0)][how].clone()
    permute_in_place[(1,)](x, N=n, HOW=how)
    assert torch.equal(x, expected)


@triton.jit
def smallest(a, b):
    return tl.minimum(a, b)


@triton.jit
def pairs(x_ptr, sum_ptr, low_ptr, pick_ptr, N: tl.constexpr, INNER: tl.constexpr):
    """Over an axis of two: a sum, a function of the kernel's own, and one of the two by a product with 0 or 1."""
    x = tl.load(x_ptr + tl.arange(0, N))
    y = tl.reshape(tl.exp(x), [N // (2 * INNER), 2, INNER])
    half = tl.arange(0, N // 2)
    tl.store(sum_ptr + half, tl.reshape(tl.sum(y, 1), [N // 2]))
    tl.store(low_ptr + half, tl.reshape(tl.reduce(y, 1, smallest), [N // 2]))
    bits = tl.reshape(x, [N // (2 * INNER), 2, INNER]).to(tl.int32, bitcast=True)
    right = tl.sum(bits * tl.arange(0, 2)[None, :, None], 1)
    tl.store(pick_ptr + half, tl.reshape(right, [N // 2]).to(tl.float32, bitcast=True))


@pytest.mark.parametrize("inner", [1, 4, 32])
def test_reductions_over_two_elements(inner: int) -> None:
    n = 64
    x = torch.randn(n)
    x[5], x[38] = -0.0, float("nan")
    total, low, right = (torch.empty(n // 2) for _ in range(3))
    pairs[(1,)](x, total, low, right, N=n, INNER=inner)
    both = x.view(-1, 2, inner)
    torch.testing.assert_close(total, both.exp().sum(1).view(-1), equal_nan=True)
    nothing = both.exp().nan_to_num(float("inf")).amin(1).view(-1)
    torch.testing.assert_close(low, nothing, equal_nan=True)
    assert torch.equal(right.view(torch.int32), both[:, 1].reshape(-1).view(torch.int32))


@triton.jit
def sort_rows(x_ptr, o_ptr, ROWS: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr):
    o = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o_ptr + o, tl.sort(tl.load(x_ptr + o), descending=DESCENDING))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int16], ids=str)
def test_sort(dtype: torch.dtype, descending: bool) -> None:
    x = torch.randint(-50, 50, (2, 32)).to(dtype)
    out = torch.empty_like(x)
    sort_rows[(1,)](x, out, ROWS=2, N=32, DESCENDING=descending)
    assert torch.equal(out, x.sort(descending=descending).values)


@triton.jit
def picked(x, where, out, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(out + o, tl.gather(tl.load(x + o) * 2, tl.load(where + o), 0))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int8], ids=str)
def test_gather_stays_inside_its_tensor(dtype: torch.dtype) -> None:
    x, out = torch.arange(256.0), torch.empty(256)
    where = torch.randint(torch.iinfo(dtype).min, torch.iinfo(dtype).max, (256,), dtype=dtype)
    where[:64] = torch.arange(64).to(dtype)
    picked[(1,)](x, where, out, N=256)
    assert torch.equal(out, 2 * where.long().clamp(0, 255).float())

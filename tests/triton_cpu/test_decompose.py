"""Matrix products of narrow types: 8-bit floats, and blocks with scales, against torch."""

from __future__ import annotations

import itertools

import pytest
import torch
import triton
import triton.language as tl

F8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    patch = pytest.MonkeyPatch()
    patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))


@triton.jit
def product(x, y, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    a = tl.load(x + m * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n)
    tl.store(out + m * N + n, tl.dot(a, b, out_dtype=out.dtype.element_ty))


@pytest.mark.parametrize(("left", "right"), [*zip(F8, F8, strict=True), (F8[0], F8[1])], ids=str)
def test_products_of_8_bit_floats(left: torch.dtype, right: torch.dtype) -> None:
    x, y = torch.randn(16, 32).to(left), torch.randn(32, 16).to(right)
    for dtype in (torch.float32, torch.float16):
        out = torch.empty(16, 16, dtype=dtype)
        product[(1,)](x, y, out, 16, 16, 32)
        exact = x.double() @ y.double()
        torch.testing.assert_close(out.double(), exact.to(dtype).double(), rtol=1e-6, atol=1e-6)


@triton.jit
def scaled(
    x,
    x_scale,
    y,
    y_scale,
    out,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    X: tl.constexpr,
    Y: tl.constexpr,
    X_PACK: tl.constexpr,
    Y_PACK: tl.constexpr,
    FAST: tl.constexpr,
):
    """X and Y are formats; e2m1 operands are packed along K or along the other dimension."""
    XM: tl.constexpr = M // 2 if X == "e2m1" and not X_PACK else M
    XK: tl.constexpr = K // 2 if X == "e2m1" and X_PACK else K
    YN: tl.constexpr = N // 2 if Y == "e2m1" and not Y_PACK else N
    YK: tl.constexpr = K // 2 if Y == "e2m1" and Y_PACK else K
    a = tl.load(x + tl.arange(0, XM)[:, None] * XK + tl.arange(0, XK)[None, :])
    b = tl.load(y + tl.arange(0, YK)[:, None] * YN + tl.arange(0, YN)[None, :])
    blocks = tl.arange(0, K // 32)[None, :]
    a_scale = None
    if x_scale is not None:
        a_scale = tl.load(x_scale + tl.arange(0, M)[:, None] * (K // 32) + blocks)
    b_scale = None
    if y_scale is not None:
        b_scale = tl.load(y_scale + tl.arange(0, N)[:, None] * (K // 32) + blocks)
    c = tl.dot_scaled(a, a_scale, X, b, b_scale, Y, lhs_k_pack=X_PACK, rhs_k_pack=Y_PACK, fast_math=FAST)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], c)


def operand(form: str, rows: int, columns: int, packed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An operand as the kernel takes it, and its values as float32."""
    if form == "e2m1":
        codes = torch.randint(0, 16, (rows, columns), dtype=torch.uint8)
        values = E2M1[(codes & 7).long()] * torch.where(codes < 8, 1.0, -1.0)
        low, high = (codes[::2], codes[1::2]) if packed == 0 else (codes[:, ::2], codes[:, 1::2])
        return (low | high << 4).contiguous(), values
    dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bf16": torch.bfloat16, "fp16": torch.float16}
    x = torch.randn(rows, columns).to(dtype[form])
    return x, x.float()


CASES = [
    *itertools.product(["e2m1", "e4m3", "e5m2"], ["e4m3", "bf16", "fp16"], [(True, True)]),
    ("e2m1", "e2m1", (True, True)),
    ("e2m1", "e2m1", (False, False)),
]


@pytest.mark.parametrize(("left", "right", "packed"), CASES)
def test_products_with_scales(left: str, right: str, packed: tuple[bool, bool]) -> None:
    torch.manual_seed(3)
    m, n, k = 16, 32, 64
    x, a = operand(left, m, k, int(packed[0]))
    y, b = operand(right, k, n, int(not packed[1]))
    x_scale = torch.randint(120, 131, (m, k // 32), dtype=torch.uint8)
    y_scale = torch.randint(120, 131, (n, k // 32), dtype=torch.uint8) if right[:2] not in ("bf", "fp") else None
    out = torch.empty(m, n)
    scaled[(1,)](x, x_scale, y, y_scale, out, m, n, k, left, right, *packed, True)
    a = a * (2.0 ** (x_scale.float() - 127)).repeat_interleave(32, 1)
    if y_scale is not None:
        b = b * (2.0 ** (y_scale.float() - 127)).repeat_interleave(32, 1).T
    torch.testing.assert_close(out, (a.double() @ b.double()).float(), rtol=1e-5, atol=5e-3)


def test_a_scale_of_255_is_nan_and_one_of_0_is_zero() -> None:
    m = n = 16
    x, _ = operand("e4m3", m, 32, 1)
    y, _ = operand("bf16", 32, n, 0)
    x_scale = torch.full((m, 1), 127, dtype=torch.uint8)
    x_scale[3], x_scale[5] = 255, 0
    out = torch.empty(m, n)
    scaled[(1,)](x, x_scale, y, None, out, m, n, 32, "e4m3", "bf16", True, True, False)
    assert out[3].isnan().all()
    assert not out[5].any()
    assert out[4].isfinite().all()

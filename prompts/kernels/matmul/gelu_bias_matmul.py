"""gelu(x @ weight + bias): a tiled matrix product whose epilogue never leaves the accumulator.

One program per output tile, float32 accumulation, ieee products (TF32 is not what float32 callers asked for). Tiles are
visited in groups of rows so that neighbours share operands in cache. (1 + tanh(u)) / 2 is written as sigmoid(2u), which
does not cancel for negative u. Use this form for any linear layer followed by an elementwise function.
"""

import torch
import triton
import triton.language as tl

TILES = [(64, 64, 64, 4, 3), (128, 64, 64, 4, 3), (128, 128, 64, 8, 3), (32, 128, 64, 4, 4), (16, 256, 64, 4, 3)]


@triton.autotune(
    configs=[
        triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_warps=warps, num_stages=stages)
        for bm, bn, bk, warps, stages in TILES
    ],
    key=["m", "n", "k"],
)
@triton.jit
def gelu_bias_matmul_tile(
    a_ptr, b_ptr, bias_ptr, c_ptr, m, n, k, a_row, a_col, b_row, b_col,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    rows_of_tiles, cols_of_tiles = tl.cdiv(m, BM), tl.cdiv(n, BN)
    pid = tl.program_id(0)
    first = pid // (GROUP * cols_of_tiles) * GROUP
    size = min(rows_of_tiles - first, GROUP)
    tile_m = first + pid % (GROUP * cols_of_tiles) % size
    tile_n = pid % (GROUP * cols_of_tiles) // size
    rm = (tile_m * BM + tl.arange(0, BM)).to(tl.int64)[:, None]
    rn = (tile_n * BN + tl.arange(0, BN)).to(tl.int64)[None, :]
    rk = tl.arange(0, BK)
    a = a_ptr + rm * a_row + rk[None, :] * a_col
    b = b_ptr + rk[:, None] * b_row + rn * b_col
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a, mask=(rm < m) & (rk[None, :] < k - start), other=0.0)
        right = tl.load(b, mask=(rk[:, None] < k - start) & (rn < n), other=0.0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
        a += BK * a_col
        b += BK * b_row
    v = acc + tl.load(bias_ptr + rn, mask=rn < n, other=0.0).to(tl.float32)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)  # sqrt(2 / pi): the tanh approximation of GELU
    gate = tl.where(u < -18.7, 0.0, 1.0 / (1.0 + tl.exp(-2.0 * u)))  # (1 + tanh(u)) / 2: 0 where float64 has it 0
    tl.store(c_ptr + rm * n + rn, v * gate, mask=(rm < m) & (rn < n))


def gelu_bias_matmul(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    n = weight.shape[1]
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    gelu_bias_matmul_tile[lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)](
        x, weight, bias, y, m, n, k, *x.stride(), *weight.stride(), GROUP=8
    )
    return y

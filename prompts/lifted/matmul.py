"""Matrix product for lifted candidates, in place of the library call that TorchInductor would make.

`lifted_matmul(bias, a, b, out)`: out = a @ b (+ bias), matrices or batches of them, any strides; fp32 accumulation.
"""

import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BM": 32, "BN": 64, "BK": 64}),
        triton.Config({"BM": 64, "BN": 64, "BK": 64}),
        triton.Config({"BM": 128, "BN": 64, "BK": 64}),
        triton.Config({"BM": 128, "BN": 128, "BK": 64}),
        triton.Config({"BM": 16, "BN": 256, "BK": 64}),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def lifted_matmul_kernel(
    a, b, c, bias, M, N, K,
    a_batch, a_m, a_k, b_batch, b_k, b_n, c_batch, c_m, c_n, bias_batch, bias_m, bias_n,
    HAS_BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)
    tiles_n = tl.cdiv(N, BN)
    rows = (tile // tiles_n).to(tl.int64) * BM + tl.arange(0, BM)
    columns = (tile % tiles_n).to(tl.int64) * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    row_mask = rows[:, None] < M
    column_mask = columns[None, :] < N
    a_pointers = a + batch * a_batch + rows[:, None] * a_m + steps[None, :] * a_k
    b_pointers = b + batch * b_batch + steps[:, None] * b_k + columns[None, :] * b_n
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a_pointers, mask=row_mask & (steps[None, :] < K - start), other=0.0)
        right = tl.load(b_pointers, mask=(steps[:, None] < K - start) & column_mask, other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
        a_pointers += BK * a_k
        b_pointers += BK * b_k
    mask = row_mask & column_mask
    if HAS_BIAS:
        offsets = batch * bias_batch + rows[:, None] * bias_m + columns[None, :] * bias_n
        total += tl.load(bias + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(
        c + batch * c_batch + rows[:, None] * c_m + columns[None, :] * c_n, total.to(c.dtype.element_ty), mask=mask
    )


@triton.autotune(
    configs=[
        triton.Config({"BM": 1, "BK": 2048}),
        triton.Config({"BM": 4, "BK": 1024}),
        triton.Config({"BM": 16, "BK": 256}),
    ],
    key=["M", "K"],
)
@triton.jit
def lifted_vector_kernel(
    a, b, c, bias, M, K, a_batch, a_m, a_k, b_batch, b_k, c_batch, c_m, bias_batch, bias_m,
    HAS_BIAS: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A matrix times one column: read once, so no tile of a product pays."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    batch = tl.program_id(1).to(tl.int64)
    steps = tl.arange(0, BK)
    partial = tl.zeros((BM, BK), dtype=tl.float32)
    for start in range(0, K, BK):
        there = steps < K - start
        left = tl.load(
            a + batch * a_batch + rows[:, None] * a_m + (start + steps)[None, :] * a_k,
            mask=(rows[:, None] < M) & there[None, :],
            other=0.0,
        )
        right = tl.load(b + batch * b_batch + (start + steps) * b_k, mask=there, other=0.0)
        partial += left.to(tl.float32) * right.to(tl.float32)[None, :]
    total = tl.sum(partial, axis=1)
    if HAS_BIAS:
        total += tl.load(bias + batch * bias_batch + rows * bias_m, mask=rows < M, other=0.0).to(tl.float32)
    tl.store(c + batch * c_batch + rows * c_m, total.to(c.dtype.element_ty), mask=rows < M)


def lifted_matmul(bias, a, b, out):
    """out = a @ b + bias (None: no bias), for matrices or batches of matrices."""
    added = out if bias is None else bias.expand(out.shape)
    a3, b3, out3, added3 = (t if t.dim() == 3 else t.unsqueeze(0) for t in (a, b, out, added))
    batches, m, n = out3.shape
    k = a3.shape[2]
    if n == 1:
        rows = lambda meta: (triton.cdiv(m, meta["BM"]), batches)  # noqa: E731
        lifted_vector_kernel[rows](
            a3, b3, out3, added3, m, k,
            *a3.stride(), *b3.stride()[:2], *out3.stride()[:2], *added3.stride()[:2], HAS_BIAS=bias is not None,
        )  # fmt: skip
        return
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]), batches)  # noqa: E731
    lifted_matmul_kernel[grid](
        a3, b3, out3, added3, m, n, k,
        *a3.stride(), *b3.stride(), *out3.stride(), *added3.stride(),
        HAS_BIAS=bias is not None,
    )  # fmt: skip

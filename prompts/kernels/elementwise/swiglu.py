"""SwiGLU of a packed projection: silu(left half) * right half.

Rows are cut into blocks on the second grid axis, so that one long row still fills the machine. Use this form for
elementwise work over rows with a stride: gated activations, bias + activation, dropout with a given mask.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((512, 4), (1024, 4), (2048, 8), (4096, 8))],
    key=["n"],
)
@triton.jit
def swiglu_block(x_ptr, y_ptr, x_row, x_col, y_row, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    gate = tl.load(x_ptr + row * x_row + cols * x_col, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * x_row + (n + cols) * x_col, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_row + cols, gate / (1.0 + tl.exp(-gate)) * up, mask=mask)


def swiglu(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape[0], x.shape[1] // 2
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    swiglu_block[lambda meta: (m, triton.cdiv(n, meta["BLOCK"]))](x, y, x.stride(0), x.stride(1), y.stride(0), n)
    return y

"""Cross entropy per row over a long vocabulary: one pass over the logits, one program per row.

Each block raises the running maximum and rescales the running sum (online log-sum-exp), so the logits are read once and
nothing of their size is written. Use this form for reductions of long rows to one number: logsumexp, entropy, KL.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((1024, 4), (2048, 8), (4096, 8), (8192, 16))],
    key=["n"],
)
@triton.jit
def cross_entropy_row(x_ptr, target_ptr, loss_ptr, x_row, x_col, target_step, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    top = float("-inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # a block of nothing but -inf adds 0, not NaN
        total = total * tl.exp(top - shift) + tl.sum(tl.exp(x - shift), axis=0)
        top = higher
    target = tl.load(target_ptr + row * target_step)
    chosen = tl.load(x_ptr + row * x_row + target * x_col).to(tl.float32)
    tl.store(loss_ptr + row, tl.log(total) + (top - chosen))


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    m, n = logits.shape
    loss = torch.empty((m,), dtype=logits.dtype, device=logits.device)
    cross_entropy_row[(m,)](logits, target, loss, logits.stride(0), logits.stride(1), target.stride(0), n)
    return loss

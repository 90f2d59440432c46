"""Wrong: reads the gradient as if it were dense, which one that was expanded is not."""

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_grad_kernel(grad, tokens, table, d, padding, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    token = tl.load(tokens + at)
    value = tl.load(grad + at * d + columns, mask=columns < d)
    tl.atomic_add(table + token * d + columns, value, mask=(columns < d) & (token != padding))


def embedding_grad(grad, tokens, rows, padding):
    count, d = grad.shape
    table = torch.zeros(rows, d, dtype=grad.dtype, device=grad.device)
    block = triton.next_power_of_2(d)
    embedding_grad_kernel[(count,)](grad, tokens, table, d, padding, BLOCK=block)
    return table

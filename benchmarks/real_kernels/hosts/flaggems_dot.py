import torch
import triton
import triton.language as tl
from flag_gems.ops.dot import dot_kernel_1, dot_kernel_2

tle = tl  # theirs casts program ids to int64


def dot(x, y):
    parts = triton.cdiv(x.shape[0], 4096)
    middle = torch.empty(parts, dtype=torch.float32, device=x.device)
    out = torch.empty((), dtype=torch.float32, device=x.device)
    dot_kernel_1[(parts,)](x, y, middle, x.shape[0], BLOCK_SIZE=4096)
    dot_kernel_2[(1,)](middle, out, parts, BLOCK_MID=triton.next_power_of_2(parts))
    return out

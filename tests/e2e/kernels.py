"""A small operator, and what a model may answer when it is asked for a kernel of it."""

from __future__ import annotations

OPERATOR = '''"""Root mean square norm of each row."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 64), Dim("N", 1, 256)


@operator(x=tensor(M, N), workloads=[workload(M=48, N=256)])
def row_norm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-6)
'''

_KERNEL = """import torch
import triton
import triton.language as tl

calls = 0


def recorders():
    # whether torch's calls pass through somebody's Python: an error in one shows it
    try:
        torch.empty(2).view(3)
    except RuntimeError as error:
        return error.__traceback__.tb_next is not None


@triton.jit
def kernel(x, y, n, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    value = tl.load(x + row * row_stride + columns, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / n + 1e-6)
    tl.store(y + row * n + columns, value * scale, mask=mask)


def with_torch(x):
    return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-6)


def with_lists(x):
    rows = x.tolist()
    return torch.tensor([[v / (sum(w * w for w in row) / len(row) + 1e-6) ** 0.5 for v in row] for row in rows])


def with_triton(x):
    y = torch.empty((x.shape[0], x.shape[1]), dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
"""


def _host(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{_KERNEL}\n\ndef row_norm(x):\n{lines}"


FAST = _host("return with_triton(x)")
SYNTAX_ERROR = FAST.replace("def row_norm(x):", "def row_norm(x:")
WRONG = FAST.replace("/ n + 1e-6", "/ n + 1e-2")
DECOY_BESIDE_TORCH = _host("with_triton(x)\nreturn with_torch(x)")
DECOY_BESIDE_PYTHON = _host("with_triton(x)\nreturn with_lists(x)")
TORCH_UNLESS_RECORDED = _host("return with_triton(x) if recorders() else with_torch(x)")
TORCH_WHEN_RECORDED = _host("return with_torch(x) if recorders() else with_triton(x)")
TORCH_FROM_THE_THIRD_CALL = _host("global calls\ncalls += 1\nreturn with_triton(x) if calls < 3 else with_torch(x)")
SLOW = FAST.replace(
    "    tl.store(y + row * n + columns, value * scale, mask=mask)\n",
    "    for column in range(0, n):\n"
    "        value = tl.load(x + row * row_stride + columns, mask=mask, other=0.0)\n"
    "        scale = tl.rsqrt(tl.sum(value * value, axis=0) / n + 1e-6)\n"
    "        tl.store(y + row * n + column, tl.load(x + row * row_stride + column) * scale)\n",
)
"""Reads the whole row again for every element of it."""
FORBIDDEN_IMPORT = FAST.replace("import torch\n", "import torch\nimport subprocess\n", 1)


def reply(source: str) -> str:
    """A kernel as a model sends it."""
    return f"One program per row.\n\n```python\n{source}```\n\nIt reads each row once."

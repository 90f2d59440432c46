"""Dynamic per-token int8 quantisation: codes and one scale per row, as W8A8 inference needs."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 65536), Dim("N", 1, 16384)


def check(
    output: tuple[torch.Tensor, torch.Tensor], expected: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor
) -> bool:
    """A value on a rounding boundary may land one code away, but no value further than half a step from its own."""
    (codes, scale), (true_codes, true_scale) = output, expected
    step = true_scale.double()
    near = (codes.double() * step - x.double()).abs() <= step * (0.5 + 1e-4)
    one = (codes.int() - true_codes.int()).abs() <= 1
    return bool((near & one).all()) and torch.allclose(scale.double(), step, rtol=1e-5, atol=0.0)


@operator(
    x=tensor(M, N, dtypes=("float32", "bfloat16", "float16")),
    check=check,
    workloads=[
        workload(M=512, N=4096, x="bfloat16"),  # Llama-3-8B hidden states
        workload(M=256, N=8192, x="float32"),  # Llama-3-70B
    ],
)
def quantize_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(dim=-1, keepdim=True).to(torch.float32).clamp(min=1e-6) / 127
    return torch.round(x / scale).to(torch.int8), scale

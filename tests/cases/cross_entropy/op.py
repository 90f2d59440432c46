"""Mean cross entropy with label smoothing over the rows whose target is not the one to ignore."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, V = Dim("M", 1, 512), Dim("V", 2, 8192)


@operator(
    logits=tensor(M, V, dtypes=("float32", "bfloat16"), layouts=("contiguous", "rows sliced")),
    target=tensor(M, dtypes="int64", low=0, high=V),
    ignored=scalar(int, 0, V - 1),
    smoothing=scalar(float, 0.0, 0.5),
    workloads=[workload(M=16, V=512, logits="float32", ignored=0, smoothing=0.0)],
)
def cross_entropy(logits: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float) -> torch.Tensor:
    logits = logits.float()
    loss = torch.nn.functional.cross_entropy(
        logits, target, ignore_index=ignored, label_smoothing=smoothing, reduction="sum"
    )
    return loss / (target != ignored).sum().clamp(min=1)

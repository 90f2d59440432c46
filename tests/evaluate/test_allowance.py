"""What a candidate may take follows from its operator and the machine."""

from __future__ import annotations

import pytest

from kernelsmith.evaluate.sessions import allowance
from kernelsmith.evaluate.sessions.allowance import Sizes
from kernelsmith.evaluate.truth.inputs import GUARD_BYTES
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import load
from kernelsmith.sandbox import machine

OPERATOR = """
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 8192)

@operator(x=tensor(N), workloads=[workload(N=8), workload(N=2048), workload(N=64)])
def outer(x: torch.Tensor) -> torch.Tensor:
    return x[:, None] * x[None, :]
"""


def test_the_largest_workload_counts_with_its_outputs(tmp_path):
    (tmp_path / "op.py").write_text(OPERATOR)
    sizes = allowance.largest(load(OperatorRef(path=str(tmp_path / "op.py")), model_seed=0))
    assert sizes.outputs == 2048 * 2048 * 4
    assert 2048 * 4 <= sizes.inputs <= 2048 * 4 + 3 * GUARD_BYTES


@pytest.mark.parametrize("gib", [0, 1, 64])
def test_memory_grows_with_the_tensors_until_the_machine_ends(gib, monkeypatch):
    monkeypatch.setattr(machine, "total_bytes", lambda: 64 << 30)
    limits = allowance.limits(Sizes(gib << 29, gib << 29), threads=3, on_card=False)
    assert limits.memory_bytes >> 30 == {0: 4, 1: 20, 64: 48}[gib]
    assert limits.threads == 3
    assert allowance.limits(Sizes(0, 0), threads=1, on_card=True).processes > 128, "drivers start threads by the dozen"

"""Operator files written for a test."""

from __future__ import annotations

import textwrap
from pathlib import Path

from kernelsmith.base import Scalar
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import LoadedOperator, load

HEAD = """\
import math
import torch
import torch.nn.functional as F
from kernelsmith import Dim, operator, scalar, tensor, tensors, workload
B, L, M, N, K = Dim("B", 1, 64), Dim("L", 1, 5000), Dim("M", 1, 65536), Dim("N", 1, 16384), Dim("K", 1, 1200)
FLOATS = ("float32", "bfloat16", "float16")
"""


def write(folder: Path, text: str, *, head: str = HEAD) -> Path:
    path = folder / "op.py"
    path.write_text(head + textwrap.dedent(text), encoding="utf-8")
    return path


def made(folder: Path, text: str) -> LoadedOperator:
    """The operator of a file that begins with HEAD."""
    return load(OperatorRef(path=str(write(folder, text))))


def problem(
    folder: Path, text: str, *, seed: int = 0, max_bytes: int | None = None, **overrides: Scalar
) -> LoadedOperator:
    path = write(folder, text, head="import torch\n")
    return load(OperatorRef(path=str(path), overrides=overrides, max_bytes=max_bytes), model_seed=seed)

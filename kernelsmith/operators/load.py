"""`load`: from the file a user named to a `LoadedOperator`. Judge side: imports torch, executes the file."""

from __future__ import annotations

from pathlib import Path

from kernelsmith.errors import OperatorError
from kernelsmith.model import OperatorRef
from kernelsmith.operators import native
from kernelsmith.operators.loaded import LoadedOperator

__all__ = ["LoadedOperator", "load"]


def load(ref: OperatorRef, *, model_seed: int = 0) -> LoadedOperator:
    """Reads and checks an operator file or a KernelBench problem.

    Args:
        ref: path, `--set` overrides and `--max-bytes`; the latter two are for KernelBench problems only.
        model_seed: seed under which a KernelBench `Model`, and the candidate's `ModelNew`, are constructed.

    Raises:
        OperatorError: with file and line, for everything that is wrong with the file.
    """
    path = Path(ref.path)
    text = native.read_source(path)
    tree = native.compiled(text, path)
    module = native.execute(tree, path, text)
    return native.read(path, text, module)

"""`load`: from the file a user named to a `LoadedOperator`. Judge side: imports torch, executes the file."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from kernelsmith.base import digest
from kernelsmith.errors import OperatorError
from kernelsmith.model import OperatorRef
from kernelsmith.operators import kernelbench, native
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.tolerances import find

__all__ = ["LoadedOperator", "load"]


def load(ref: OperatorRef, *, model_seed: int = 0) -> LoadedOperator:
    """Reads and checks an operator file or a KernelBench problem.

    Args:
        ref: path, `--set` overrides and `--max-bytes`; the latter two are for KernelBench problems only.
        model_seed: seed under which a KernelBench `Model`, and the candidate's `ModelNew`, are constructed.

    Raises:
        OperatorError: with file and line, for everything that is wrong with the file.
    """
    try:
        return _held(_load(ref, model_seed), ref)
    except RecursionError as error:
        raise OperatorError("nested too deeply for Python", "split long expressions up", file=ref.path) from error
    except (SystemExit, KeyboardInterrupt) as error:  # of a function in a declaration, such as where=
        raise native.placed(error, Path(ref.path)) from error


def _load(ref: OperatorRef, model_seed: int) -> LoadedOperator:
    path = Path(ref.path)
    text = native.read_source(path)
    code = native.compiled(text, path)
    if kernelbench.is_problem(ast.parse(text)):
        return kernelbench.read(path, text, overrides=ref.overrides, max_bytes=ref.max_bytes, model_seed=model_seed)
    if ref.overrides or ref.max_bytes is not None:
        option = "--max-bytes" if not ref.overrides else f"--set {next(iter(ref.overrides))}"
        raise OperatorError(
            f"{option} is for KernelBench problems", "a native file says its sizes in workloads", file=str(path)
        )
    return native.read(path, text, native.execute(code, path, text))


def _held(operator: LoadedOperator, ref: OperatorRef) -> LoadedOperator:
    """With the tolerance policy that the command line names, or else the file."""
    name = ref.tolerance or operator.tolerance
    if name is None:
        return operator
    try:
        policy = find(name, ref.policies)
    except OperatorError as error:
        raise OperatorError(error.message, error.hint, file=ref.path) from None
    # verdicts under another policy are verdicts on another question
    update = {
        "digest": digest(operator.info.digest, policy.model_dump_json()),
        "notes": (*operator.info.notes, policy.describe()),
    }
    return replace(operator, policy=policy, info=operator.info.model_copy(update=update))

"""What went wrong in a candidate, from its exception to words that a model can act on.

Invariant: every exception becomes a `Failed`; none ends the process. The recorder calls it for the candidate's module
and host function, and for compilations that they start.
"""

from __future__ import annotations

import linecache
import traceback
from types import TracebackType

import torch

from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.record.autotune_hook import PrunedError
from kernelsmith.sandbox.wire.messages import Failed

_TRACE_CHARS = 6000
_MESSAGE_CHARS = 4000


def failed(error: BaseException, source_file: str, doing: str) -> Failed:
    """`doing` says what was tried, for example `calling softmax`; `source_file` is the candidate's."""
    try:
        return _told(error, source_file, doing)
    except BaseException:  # noqa: BLE001 - an exception is the candidate's code as well: its __str__ runs here
        message = f"{doing}: it raised an exception that raises another one when it is shown"
        return Failed(outcome=Outcome.RUNTIME_ERROR, message=message)


def _told(error: BaseException, source_file: str, doing: str) -> Failed:
    outcome, what = _classify(error)
    line = _line(error, source_file)
    place = f" (line {line})" if line else ""
    return Failed(
        outcome=outcome,
        message=f"{doing}: {what}{place}"[:_MESSAGE_CHARS],
        line=line,
        trace="".join(traceback.format_exception(error))[-_TRACE_CHARS:],
    )


def _classify(error: BaseException) -> tuple[Outcome, str]:
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources

    text = f"{type(error).__name__}: {error}"
    if isinstance(error, PrunedError):
        return Outcome.REJECTED, str(error)
    if isinstance(error, SystemExit):
        return Outcome.RUNTIME_ERROR, f"the candidate ends the process (SystemExit {error.code})"
    if isinstance(error, SyntaxError):
        return Outcome.COMPILE_ERROR, f"not valid Python: {error.msg}"
    if isinstance(error, CompilationError):
        return Outcome.COMPILE_ERROR, f"Triton cannot compile the kernel: {_innermost(error)}"
    if _while_compiling(error.__traceback__):  # what the backend says of a kernel
        staged = hasattr(error, "stage_name")  # Huawei's Triton frames it
        return Outcome.COMPILE_ERROR, str(error.__context__ if staged and error.__context__ else error)
    if isinstance(error, OutOfResources):
        return Outcome.RESOURCE_LIMIT, text
    if isinstance(error, torch.OutOfMemoryError):
        return Outcome.MEMORY, f"device memory: {text}"
    if isinstance(error, MemoryError):
        return Outcome.MEMORY, text
    return Outcome.RUNTIME_ERROR, text


def _while_compiling(trace: TracebackType | None) -> bool:
    from triton.compiler.compiler import compile as compile_kernel

    return any(frame.f_code is compile_kernel.__code__ for frame, _ in traceback.walk_tb(trace))


def _innermost(error: BaseException) -> BaseException:
    """The compilation error that started it: one in a function called from a kernel is wrapped once per caller."""
    from triton.compiler.errors import CompilationError

    while isinstance(error.__cause__, CompilationError):
        error = error.__cause__
    return error


def _line(error: BaseException, source_file: str) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno or None
    if (line := _kernel_line(_innermost(error), source_file)) is not None:
        return line
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == source_file]
    return lines[-1] if lines else None


def _kernel_line(error: BaseException, source_file: str) -> int | None:
    """Where in the file a compilation error is: Triton counts from the kernel's `def`, and drops its own frames."""
    text, node = getattr(error, "src", None), getattr(error, "node", None)
    lineno = getattr(node, "lineno", None)
    if not isinstance(text, str) or not isinstance(lineno, int):
        return None
    head = text.partition("\n")[0].strip()
    starts = [n for n, line in enumerate(linecache.getlines(source_file), 1) if line.strip() == head]
    return starts[0] + lineno - 1 if starts else None

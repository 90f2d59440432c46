"""The compiler role: one kernel's TTIR through Triton's own compiler for a chip that need not be here, and what came
out, read from the artefacts.

The text is hostile and this process is thrown away after it. Invariant: nothing that was compiled is run or leaves; a
text's fault is a `Failed` in the compiler's words, also where the compiler dies of it; a fault of this machine is
`Broken`. Called by the zygote.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelsmith.compiled import Chip, Resources
from kernelsmith.devices.kernels import compile_ttir
from kernelsmith.errors import InfrastructureError
from kernelsmith.offline import amd, ascend, intel, nvidia
from kernelsmith.offline.count import count
from kernelsmith.offline.lint import found_in
from kernelsmith.offline.runs import runs_in
from kernelsmith.offline.wire import (
    REQUESTS,
    Compile,
    Compiled,
    CompilerReply,
    Count,
    Inspect,
    Inspected,
    Request,
    compiler_reply,
)
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Kernel
from kernelsmith.sandbox.wire.messages import Broken, Failed
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError
from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct

_MESSAGE_CHARS = 2000
_PRINTED_CHARS = 1 << 20
_DIAGNOSTIC = re.compile(r"^.*\b(?:error|fatal|assertion)\b.*$", re.MULTILINE | re.IGNORECASE)
_MOST_DIAGNOSTICS = 3
_OWN_TOOLCHAIN: dict[str, Callable[[Kernel, Chip, Path], Resources | Failed]] = {
    "npu": ascend.compiled,
    "xpu": intel.compiled,
}
"""By Triton's backend: compilers that are not in the Triton at hand."""


def main(channel: Channel, scratch: Path) -> None:
    """Answer requests until the judge hangs up."""
    nvidia.keep_log()
    while True:
        try:
            request = REQUESTS.validate_json(channel.receive().payload)
            channel.send(answer(request, scratch).model_dump_json().encode())
        except PeerGoneError:
            return


def answer(request: Request, scratch: Path) -> CompilerReply:
    """What became of the kernel, or what was counted of it.

    LLVM ends the process that it runs in where it gives up, so that is another one.
    """
    if not isinstance(request, Compile):
        return _looked_through(request)
    printed, reply = scratch / "printed", scratch / "reply"
    if (pid := os.fork()) == 0:
        _compile_and_exit(request, printed, reply)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return compiler_reply(reply.read_bytes())
    end = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
    message = _blame(f"the compiler for {request.chip.label} dies of it ({end})", _said(printed))
    return Failed(outcome=Outcome.COMPILE_ERROR, message=message)


def _looked_through(request: Count | Inspect) -> CompilerReply:
    """What a text says without being compiled."""
    what = "its work cannot be counted" if isinstance(request, Count) else "it cannot be inspected"
    try:
        if isinstance(request, Count):
            return count(request)
        ttir = request.kernel.ttir
        return Inspected(found=found_in(ttir, request.kernel.name), runs=runs_in(ttir))
    except (TtirError, UnsupportedConstruct, ValueError, MemoryError) as error:
        return Failed(outcome=Outcome.COMPILE_ERROR, message=f"{what}: {error}"[:_MESSAGE_CHARS])


def _compile_and_exit(request: Compile, printed: Path, reply: Path) -> None:
    """Compilers print whole listings where they fail, more than a log may hold: that goes to a file."""
    code = 1
    try:
        with printed.open("wb") as sink:
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)
        reply.write_text(_compiled(request, printed).model_dump_json(), encoding="utf-8")
        code = 0
    finally:
        os._exit(code)


def _compiled(request: Compile, printed: Path) -> CompilerReply:
    begin = time.monotonic()
    try:
        if (own := _OWN_TOOLCHAIN.get(request.chip.backend)) is not None:
            made = own(request.kernel, request.chip, printed.parent)
            return made if isinstance(made, Failed) else Compiled(resources=made, seconds=time.monotonic() - begin)
        compiled = compile_ttir(request.kernel, _target(request.chip))
        seconds = time.monotonic() - begin
        return Compiled(resources=_read(compiled, request.chip, printed), seconds=seconds)
    except InfrastructureError as error:
        return Broken(message=error.message[:_MESSAGE_CHARS], hint=error.hint[:_MESSAGE_CHARS])
    except ValueError as error:
        return Failed(outcome=Outcome.COMPILE_ERROR, message=_blame(str(error), _said(printed)))


def _target(chip: Chip) -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget(chip.backend, chip.arch, chip.warp_size)


def _read(compiled: Any, chip: Chip, printed: Path) -> Resources:
    match chip.backend:
        case "cuda":
            return nvidia.read(compiled, _said(printed), printed.parent)
        case "hip":
            return amd.read(compiled)
        case _:
            raise InfrastructureError(f"nothing here reads what a compiler makes for {chip.label}")


def _said(printed: Path) -> str:
    sys.stdout.flush()
    with printed.open(encoding="utf-8", errors="replace") as file:
        return file.read(_PRINTED_CHARS)


def _blame(error: str, said: str) -> str:
    """The exception, and what MLIR, LLVM or ptxas said before it: the exception alone names a pass at best."""
    lines = dict.fromkeys(line.strip() for line in _DIAGNOSTIC.findall(said))
    return "; ".join([error.partition("\n")[0], *list(lines)[:_MOST_DIAGNOSTICS]])[:_MESSAGE_CHARS]

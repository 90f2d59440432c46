"""Turns C++ text into a shared library with the compiler that the machine has.

Owns finding the compiler and its flags. Invariant: the same source, level and `identification` give the same machine
code, so the three together are a cache key. Called by the Triton backend, the plan launcher and the thread pool.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.errors import KernelsmithError
from kernelsmith.triton_cpu.isa import Isa, host_fingerprint

TIME_LIMIT_S = 120.0
TEMPORARY_HINT = "free space in the folder of temporary files, or name another that can hold programs in TMPDIR"
_CANDIDATES = ("g++", "clang++", "c++")
_INSTALL_HINT = (
    "install one (Debian/Ubuntu: apt install g++; Fedora: dnf install gcc-c++; conda: conda install gxx), "
    "or name it in KERNELSMITH_CXX"
)

# -ffast-math is absent on purpose: NaN, infinities and -0.0 are part of the result, and linking a shared library with
# it switches the whole process to flush-to-zero. -O2, because -O3 rearranges explicit vector code for the worse.
_KERNEL_FLAGS = (
    "-O2",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-w",
)
_LIBRARY_FLAGS = ("-O2", "-fPIC", "-shared", "-pthread", "-fno-exceptions", "-fno-rtti", "-w")


class CompilerMissingError(KernelsmithError):
    """No C++ compiler was found."""


class BuildError(KernelsmithError):
    """The C++ compiler refused generated code, took too long over it, or was kept from its work."""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command line up to the flags, and the first line it says about its version."""

    command: tuple[str, ...]
    version: str


def find_compiler() -> Compiler:
    """The compiler named by `KERNELSMITH_CXX` or `CXX`, else the first of g++, clang++ and c++ on the PATH."""
    return _find_compiler(os.environ.get("KERNELSMITH_CXX"), os.environ.get("CXX"), os.environ.get("PATH", ""))


@functools.cache
def _find_compiler(own: str | None, common: str | None, path: str) -> Compiler:
    named = own or common
    tried = (named,) if named else _CANDIDATES
    for text in tried:
        command = tuple(shlex.split(text))
        if command and shutil.which(command[0], path=path):
            return Compiler(command, _version(command))
    raise CompilerMissingError(
        f"no C++ compiler: tried {', '.join(tried)} on the PATH",
        hint=_INSTALL_HINT,
    )


def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerMissingError(
            f"the C++ compiler {shlex.join(command)} does not run: {error}", _INSTALL_HINT
        ) from error
    return done.stdout.partition("\n")[0] or f"{command[0]} of unknown version"


def identification(isa: Isa) -> str:
    """What beside the source decides the machine code: compiler, flags and, for `-march=native`, this processor."""
    native = host_fingerprint() if "-march=native" in isa.flags else ""
    return " | ".join([find_compiler().version, *_KERNEL_FLAGS, *isa.flags, native])


def compile_shared(source: str, isa: Isa, *, fp_fusion: bool, time_limit_s: float = TIME_LIMIT_S) -> bytes:
    """Compiles a kernel; its code includes no headers and refers to nothing but the C and maths libraries.

    `fp_fusion` lets the compiler contract `a * b + c`. Raises CompilerMissingError or BuildError.
    """
    contract = "-ffp-contract=fast" if fp_fusion else "-ffp-contract=off"
    return _compile(source, (*_KERNEL_FLAGS, contract, *isa.flags), ("-Wl,--as-needed", "-lm"), time_limit_s)


def compile_library(source: str) -> bytes:
    """Compiles C++ that uses system headers and threads, for any processor of this kind."""
    return _compile(source, _LIBRARY_FLAGS, (), TIME_LIMIT_S)


def _compile(source: str, flags: tuple[str, ...], libraries: tuple[str, ...], time_limit_s: float) -> bytes:
    compiler = find_compiler()
    try:
        with tempfile.TemporaryDirectory(prefix="kernelsmith-") as folder:
            output = Path(folder) / "kernel.so"
            command = [*compiler.command, *flags, "-x", "c++", "-", "-o", str(output), *libraries]
            message = _run(command, source, time_limit_s)
            if message is None:
                return output.read_bytes()
    except OSError as error:
        raise BuildError(f"{shlex.join(compiler.command)} could not be run: {error}", TEMPORARY_HINT) from error
    raise BuildError(f"{compiler.version} could not build the kernel: {message}", _advice(message))


def _advice(message: str) -> str:
    """What to do about a failure that is not the source's."""
    if "No space left" in message:
        return TEMPORARY_HINT
    if "terminated program" in message or message.startswith("ended by"):  # one of its passes, or the compiler itself
        return "if the machine ran out of memory, compile fewer kernels at once; then try again"
    return ""


def _run(command: list[str], source: str, time_limit_s: float) -> str | None:
    """Runs the compiler in a process group of its own, so that its passes end with it; returns what went wrong."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    ) as process:
        try:
            _, messages = process.communicate(source, timeout=time_limit_s)
        except BaseException as error:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # it is over, or a sandbox keeps all in one group
                process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                return f"it took longer than {time_limit_s:g} s"
            raise
    if process.returncode == 0:
        return None
    end = f"exit status {process.returncode}"
    if process.returncode < 0:
        end = f"ended by {signal.Signals(-process.returncode).name}"
    return f"{end}\n{_shorten(messages)}"


def _shorten(messages: str, limit: int = 4000) -> str:
    return messages if len(messages) <= limit else messages[:limit] + "\n[...]"

"""What a compiler's process says where the compiler ends it, or cannot work."""

from __future__ import annotations

import faulthandler
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kernelsmith.compiled import Chip
from kernelsmith.errors import InfrastructureError
from kernelsmith.offline import compiler
from kernelsmith.offline.wire import Compile
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Kernel
from kernelsmith.sandbox.wire.messages import Broken, Failed

REQUEST = Compile(
    kernel=Kernel(name="k", ttir="module {}", signature=()), chip=Chip(backend="hip", arch="gfx942", warp_size=64)
)


def test_a_compiler_that_dies_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM says what it cannot do, and aborts; what else it prints does not fill the answer."""

    def abort(*_: Any) -> NoReturn:
        os.write(2, b"a listing\n" * 10_000 + b"LLVM ERROR: Cannot select: intrinsic %llvm.nothing\n")
        faulthandler.disable()
        os.abort()

    monkeypatch.setattr(compiler, "compile_ttir", abort)
    made = compiler.answer(REQUEST, tmp_path)
    assert isinstance(made, Failed)
    assert made.outcome is Outcome.COMPILE_ERROR
    assert made.message == (
        "the compiler for hip gfx942 dies of it (SIGABRT); LLVM ERROR: Cannot select: intrinsic %llvm.nothing"
    )


def test_a_machine_that_cannot_compile_is_nobodys_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> NoReturn:
        raise InfrastructureError("no room for files", "make some")

    monkeypatch.setattr(compiler, "compile_ttir", broken)
    made = compiler.answer(REQUEST, tmp_path)
    assert made == Broken(message="no room for files", hint="make some")

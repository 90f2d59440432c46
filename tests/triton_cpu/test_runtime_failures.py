"""What keeps a kernel from being built or loaded says what it was and what to do, and trying again works."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith import doctor
from kernelsmith.diagnosis import Health
from kernelsmith.errors import InfrastructureError, KernelsmithError, UsageError
from kernelsmith.triton_cpu import compiler, isa
from kernelsmith.triton_cpu.run import build, launch, pool
from tests.triton_cpu.test_build import KERNEL
from tests.triton_cpu.test_runtime_ttir import ADD, adds


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@triton.jit
def increment(x, AMOUNT: tl.constexpr):
    tl.store(x, tl.load(x) + AMOUNT)


@pytest.mark.parametrize("variable", ["PATH", "CXX"])
def test_a_launch_without_a_compiler_shows_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    """In the traceback, since who launches a kernel has no command line of ours. With a compiler it then works."""
    x = torch.zeros(1)
    compiler._identity.cache_clear()
    increment.device_caches.clear()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    with monkeypatch.context() as patch:
        for name in ("CXX", "KERNELSMITH_CXX"):
            patch.delenv(name, raising=False)
        patch.setenv(variable, str(tmp_path / "nothing"))
        with pytest.raises(build.CompilerMissingError) as caught:
            increment[(1,)](x, AMOUNT=2.0)
        (finding,) = doctor._compiler()
    text = "".join(traceback.format_exception(caught.value))
    assert "hint: install one (Debian/Ubuntu: apt install g++" in text
    assert (finding.health, finding.fix) == (Health.FAIL, caught.value.hint)
    increment[(1,)](x, AMOUNT=2.0)
    assert x.item() == 2.0


def test_a_compiler_that_cannot_be_executed_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "c++"
    path.write_bytes(b"\x7fELFnot a program")
    path.chmod(0o755)
    monkeypatch.setenv("KERNELSMITH_CXX", str(path))
    with pytest.raises(build.CompilerMissingError, match=r"c\+\+ does not run"):
        build.find_compiler()
    (finding,) = doctor._compiler()
    assert finding.health is Health.FAIL


def test_a_compiler_that_was_there_a_moment_ago(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = script(tmp_path / "c++", "echo gone 1.0")
    monkeypatch.setenv("KERNELSMITH_CXX", path)
    build.find_compiler()
    Path(path).unlink()
    with pytest.raises(build.BuildError, match=r"c\+\+ could not be run: .*No such file"):
        build.compile_shared(KERNEL, isa.host_isa(), fp_fusion=True)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("kill -KILL $$", "ended by SIGKILL"),
        ("echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1", "Killed signal terminated"),
    ],
)
def test_a_compiler_that_is_killed_says_so_and_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str, message: str
) -> None:
    """Killed the first time it compiles, with all of the source still to be read."""
    real = build.find_compiler().command[0]
    once = f'[ "$1" = --version ] || mkdir {tmp_path}/once 2>/dev/null && {{ {what}; }}\nexec {real} "$@"'
    monkeypatch.setenv(
        "KERNELSMITH_CXX", script(tmp_path / "c++", f'[ "$1" = --version ] && exec {real} --version\n{once}')
    )
    source = KERNEL + "// much\n" * 100_000
    with pytest.raises(build.BuildError, match=message) as caught:
        build.compile_shared(source, isa.host_isa(), fp_fusion=True)
    assert "out of memory" in caught.value.hint
    assert build.compile_shared(source, isa.host_isa(), fp_fusion=True).startswith(b"\x7fELF")


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Files larger than 4 KiB cannot be written, by this process and by those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = build.compile_shared(KERNEL, isa.host_isa(), fp_fusion=True)
    temporary, kept = tmp_path / "temporary", tmp_path / "kept"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with full_disk():
        with pytest.raises(build.BuildError):
            build.compile_shared(KERNEL, isa.host_isa(), fp_fusion=True)
        with pytest.raises(InfrastructureError, match="File too large"):
            pool.load_library(code)
        monkeypatch.setattr(launch, "build_ttir", lambda *_, **__: launch.Binary("add", (), 0, code))
        with pytest.raises(InfrastructureError, match=r"kept, cannot be used: .*File too large"):
            launch.compile_ttir(ADD, cache_dir=kept)
    assert list(temporary.iterdir()) == []
    assert list(kept.iterdir()) == []
    monkeypatch.undo()
    assert adds(launch.compile_ttir(ADD, cache_dir=kept))


def test_a_folder_for_kernels_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InfrastructureError, match="file/kernels, cannot be used") as caught:
        launch.compile_ttir(ADD, cache_dir=tmp_path / "file" / "kernels")
    assert "can be written to" in caught.value.hint


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(build.BuildError, match="absent") as caught:
        build.compile_shared(KERNEL, isa.host_isa(), fp_fusion=True)
    assert "TMPDIR" in caught.value.hint
    with pytest.raises(InfrastructureError, match="absent"):
        pool.load_library(b"")


def test_no_folder_for_the_runtime_names_each_and_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / f"kernelsmith-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"kernelsmith-{os.getuid()}").chmod(0o777)
    monkeypatch.setenv("KERNELSMITH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InfrastructureError, match=r"file/cache \(Not a directory\), .*\(others may write to it\)"):
        pool.built_library("pool", "")


def test_a_user_without_a_home_keeps_the_runtime_among_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("KERNELSMITH_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert pool.built_library("nothing", "").parent == tmp_path / f"kernelsmith-{os.getuid()}"


@pytest.mark.parametrize("count", [-1, 2**16])
def test_an_impossible_number_of_threads_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"num_cpu_threads must be in .*, not {count}"):
        increment[(1,)](torch.zeros(1), AMOUNT=1.0, num_cpu_threads=count)


def test_a_hint_is_no_part_of_the_message_and_survives_a_process_boundary() -> None:
    error = KernelsmithError("what was tried", "what to do")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.hint, again.__notes__) == ("what was tried", "what to do", ["hint: what to do"])
    assert not hasattr(KernelsmithError("no hint"), "__notes__")

"""Finding and running the C++ compiler, with its failures as errors a person can act on."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from kernelsmith.triton_cpu import isa
from kernelsmith.triton_cpu.emit import codegen
from kernelsmith.triton_cpu.run import build

KERNEL = 'extern "C" void kernelsmith_run(long, long, const int *, const unsigned long long *, char *) {}\n'


def test_a_kernel_becomes_an_elf_file() -> None:
    assert build.compile_shared(KERNEL, isa.host_isa(), fp_fusion=True).startswith(b"\x7fELF")


def test_no_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KERNELSMITH_CXX", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.CompilerMissingError, match=r"tried g\+\+, clang\+\+") as caught:
        build.compile_shared(KERNEL, isa.host_isa(), fp_fusion=True)
    assert "apt install g++" in caught.value.hint


def test_a_named_compiler_that_is_absent_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CXX", "no-such-compiler -x")
    with pytest.raises(build.CompilerMissingError, match="tried no-such-compiler -x"):
        build.find_compiler()


def test_own_variable_wins_and_may_hold_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "mine"
    script.write_text("#!/bin/sh\necho my compiler 1.0 $1\n")
    script.chmod(0o755)
    monkeypatch.setenv("KERNELSMITH_CXX", f"{script} c++")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.find_compiler() == build.Compiler((str(script), "c++"), "my compiler 1.0 c++")


def test_refused_source_shows_what_the_compiler_said() -> None:
    with pytest.raises(build.BuildError, match="undeclared_thing"):
        build.compile_shared("int f() { return undeclared_thing; }", isa.host_isa(), fp_fusion=True)


def test_a_compiler_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "slow"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n')
    script.chmod(0o755)
    monkeypatch.setenv("KERNELSMITH_CXX", str(script))
    with pytest.raises(build.BuildError, match=r"longer than 0\.5 s"):
        build.compile_shared(KERNEL, isa.host_isa(), fp_fusion=True, time_limit_s=0.5)
    child = int((tmp_path / "child").read_text())
    status = Path(f"/proc/{child}/stat")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and status.exists() and status.read_text().split()[2] != "Z":
        time.sleep(0.02)  # a process that was killed takes a moment to die
    assert not status.exists() or status.read_text().split()[2] == "Z"


def test_no_file_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    build.compile_shared(KERNEL, isa.host_isa(), fp_fusion=False)
    assert os.listdir(tmp_path) == []


def test_identification_tells_levels_apart() -> None:
    texts = {build.identification(level) for level in (isa.host_isa(), isa.AVX512, isa.AVX2, isa.BASELINE)}
    assert len(texts) == 4


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"sse2"}, (4, False, False, False)),
        ({"avx2", "fma", "f16c"}, (8, False, True, False)),
        ({"avx2"}, (4, False, False, False)),
        ({"avx2", "fma", "f16c", "avx512f", "avx512dq", "avx512bw", "avx512vl"}, (16, True, True, False)),
        ({"avx2", "fma", "avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_bf16"}, (16, True, True, True)),
    ],
)
def test_level_follows_the_processor(flags: set[str], expected: tuple[int, bool, bool, bool]) -> None:
    level = isa.isa_for(frozenset(flags))
    assert (level.lanes, level.avx512, level.avx2, level.bf16_dot) == expected


def test_a_machine_without_cpuinfo_gets_the_baseline(tmp_path: Path) -> None:
    assert isa.isa_for(isa.cpu_flags(tmp_path / "absent")).lanes == isa.BASELINE.lanes


CLANG = next((name for name in ("clang++", *(f"clang++-{n}" for n in range(24, 13, -1))) if shutil.which(name)), "")
TTIR = Path(__file__).parents[1] / "data" / "ttir" / "3.7.1"


@pytest.mark.skipif(not CLANG, reason="there is no clang++ on this machine")
@pytest.mark.parametrize("level", [isa.host_isa(), isa.BASELINE], ids=["host", "baseline"])
@pytest.mark.parametrize("name", ["softmax", "matmul", "atomics"])
def test_clang_takes_the_same_source(monkeypatch: pytest.MonkeyPatch, name: str, level: isa.Isa) -> None:
    monkeypatch.setenv("KERNELSMITH_CXX", CLANG)
    source = codegen.generate((TTIR / f"{name}.ttir").read_text(), isa=level).source
    assert build.compile_shared(source, level, fp_fusion=True).startswith(b"\x7fELF")

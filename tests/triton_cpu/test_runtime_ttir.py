"""From TTIR text to numbers without Triton and torch, and the caches in between."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelsmith.errors import KernelsmithError
from kernelsmith.triton_cpu import isa
from kernelsmith.triton_cpu.run import build, launch

ADD = """
module {
  tt.func public @add(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %first = arith.muli %pid, %c64 : i32
    %lane = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %base = tt.splat %first : i32 -> tensor<64xi32>
    %index = arith.addi %base, %lane : tensor<64xi32>
    %size = tt.splat %n : i32 -> tensor<64xi32>
    %mask = arith.cmpi slt, %index, %size : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %index : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %a = tt.load %xp, %mask : tensor<64x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %index : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %b = tt.load %yp, %mask : tensor<64x!tt.ptr<f32>>
    %sum = arith.addf %a, %b : tensor<64xf32>
    %os = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %op = tt.addptr %os, %index : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %op, %sum, %mask : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""


def adds(kernel: launch.Kernel) -> bool:
    x, y = np.arange(1000, dtype=np.float32), np.full(1000, 0.5, dtype=np.float32)
    out = np.zeros(1008, dtype=np.float32)
    kernel.launch((16, 1, 1), [x.ctypes.data, y.ctypes.data, out.ctypes.data, 1000])
    return bool((out[:1000] == x + y).all() and not out[1000:].any())


def test_text_becomes_a_kernel() -> None:
    kernel = launch.compile_ttir(ADD)
    assert (kernel.name, kernel.arguments) == ("add", ("*f32", "*f32", "*f32", "i32"))
    assert adds(kernel)


def launch_add(_: int) -> bool:
    return adds(launch.compile_ttir(ADD))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_launches(method: str) -> None:
    assert launch_add(0)
    with multiprocessing.get_context(method).Pool(2) as processes:
        assert processes.map_async(launch_add, range(4)).get(timeout=100) == [True] * 4


def test_the_same_text_is_compiled_once_per_process() -> None:
    assert launch.compile_ttir(ADD) is launch.compile_ttir(ADD)
    assert launch.compile_ttir(ADD) is not launch.compile_ttir(ADD, fp_fusion=False)


def test_each_instruction_set_gives_the_same_answer() -> None:
    host = isa.host_isa()
    for level in (isa.AVX512, isa.AVX2, isa.BASELINE):
        if (host.avx512 or not level.avx512) and (host.avx2 or not level.avx2):
            assert adds(launch.compile_ttir(ADD, isa=level)), level.name


def test_neither_torch_nor_triton_is_needed() -> None:
    program = (
        "import sys; sys.modules['torch'] = sys.modules['triton'] = None;"
        "from tests.triton_cpu.test_runtime_ttir import ADD, adds;"
        "from kernelsmith.triton_cpu.run.launch import compile_ttir; print(adds(compile_ttir(ADD)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process would see it: nothing compiled yet."""
    monkeypatch.setattr(launch, "_compile_ttir", launch._compile_ttir.__wrapped__)


def test_a_folder_keeps_kernels_between_processes(fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert adds(launch.compile_ttir(ADD, cache_dir=tmp_path))

    def refuse(*_: object, **__: object) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(build, "compile_shared", refuse)
    assert adds(launch.compile_ttir(ADD, cache_dir=tmp_path))
    with pytest.raises(AssertionError, match="compiled again"):
        launch.compile_ttir(ADD.replace("@add", "@plus"), cache_dir=tmp_path)


@pytest.mark.parametrize("suffix", [".so", ".json"])
def test_a_missing_half_of_a_cache_entry_is_built_again(fresh: None, tmp_path: Path, suffix: str) -> None:
    launch.compile_ttir(ADD, cache_dir=tmp_path)
    (half,) = tmp_path.glob(f"*{suffix}")
    half.unlink()
    assert adds(launch.compile_ttir(ADD, cache_dir=tmp_path))
    assert half.exists()


def test_a_torn_cache_entry_is_built_again(fresh: None, tmp_path: Path) -> None:
    launch.compile_ttir(ADD, cache_dir=tmp_path)
    (facts,) = tmp_path.glob("*.json")
    facts.write_text('{"name": "ad')
    assert adds(launch.compile_ttir(ADD, cache_dir=tmp_path))


def test_a_machine_without_compiler_says_so(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CXX", "no-such-compiler")
    with pytest.raises(KernelsmithError, match="no C\\+\\+ compiler"):
        launch.compile_ttir(ADD)

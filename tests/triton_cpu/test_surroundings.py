"""What surrounds a kernel in Triton: autotuning, hooks, warming up, caches, dumps and options."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs

from kernelsmith.triton_cpu import get_num_threads
from kernelsmith.triton_cpu.run import pool


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    yield
    knobs.runtime.jit_cache_hook = knobs.runtime.jit_post_compile_hook = None


@triton.jit(do_not_specialize=["n"])
def double(x, out, n, B: tl.constexpr, EVEN: tl.constexpr = False):
    index = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + index, tl.load(x + index, mask=index < n) * 2 + EVEN, mask=index < n)


def test_every_stage_is_shown_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_KERNEL_DUMP", "1")
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    warm = double.warmup(torch.float32, torch.float32, 100, B=32, grid=(1,))
    assert {"ttir", "cpp", "so"} <= set(warm.asm)
    assert "kernelsmith_run" in warm.asm["cpp"]
    assert warm.asm["so"].startswith(b"\x7fELF")
    for folder in ("dump", "cache"):
        assert {path.suffix for path in (tmp_path / folder).rglob("double.*")} >= {".ttir", ".cpp", ".so"}
    x, out = torch.arange(100.0), torch.zeros(100)
    again = double[(4,)](x, out, 100, B=32)
    assert torch.equal(out, 2 * x)
    assert again.asm["so"] == warm.asm["so"]


def test_a_kernel_is_compiled_once_and_again_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelsmith.triton_cpu.run import build

    compiled: list[str] = []
    original = build.compile_shared

    def counting(source: str, *args: Any, **options: Any) -> bytes:
        compiled.append(source)
        return original(source, *args, **options)

    monkeypatch.setattr(build, "compile_shared", counting)
    x, out = torch.arange(64.0), torch.zeros(64)
    for always in ("0", "0", "1"):
        monkeypatch.setenv("TRITON_ALWAYS_COMPILE", always)
        double.device_caches.clear()
        double[(2,)](x, out, 64, B=32)
    assert len(compiled) == 2
    double[(2,)](x, out, 65, B=32)  # not specialized: the same kernel
    double[(4,)](x, out, 64, B=16)
    assert len(compiled) == 3


def test_compilation_hooks_see_a_kernel_and_may_stop_it() -> None:
    seen: list[str] = []
    x, out = torch.arange(64.0), torch.zeros(64)
    knobs.runtime.jit_cache_hook = lambda **facts: seen.append("before")
    knobs.runtime.jit_post_compile_hook = lambda **facts: seen.append("after")
    double[(8,)](x, out, 64, B=8)
    assert seen == ["before", "after"]
    assert torch.equal(out, 2 * x)
    knobs.runtime.jit_cache_hook = lambda **facts: True
    assert double[(16,)](x, out, 64, B=4) is None
    assert seen == ["before", "after"]


def test_autotuning_with_everything(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    seen: list[str] = []
    tuned = triton.autotune(
        [triton.Config({"B": 32}, pre_hook=lambda arguments: seen.append("config")), triton.Config({"B": 64})],
        key=["n"],
        reset_to_zero=["out"],
        pre_hook=lambda arguments, reset_only=False: seen.append("pre"),
        post_hook=lambda arguments, exception: seen.append("post"),
        prune_configs_by={"early_config_prune": lambda configs, arguments, **rest: configs},
        do_bench=lambda call, quantiles: triton.testing.do_bench(call, warmup=1, rep=1, quantiles=quantiles),
    )(triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["B"] == 0})(double))
    x, out = torch.arange(64.0), torch.zeros(64)
    tuned[lambda config: (triton.cdiv(64, config["B"]),)](x, out, 64)
    assert torch.equal(out, 2 * x + 1)
    assert tuned.best_config.kwargs["B"] in (32, 64)
    assert {"config", "pre", "post"} <= set(seen)
    assert "autotuning for function double" in capfd.readouterr().out


def test_timing_needs_no_gpu_and_a_cuda_graph_says_that_it_does() -> None:
    x, out = torch.arange(64.0), torch.zeros(64)
    assert triton.testing.do_bench(lambda: double[(2,)](x, out, 64, B=32), warmup=1, rep=2) > 0
    with pytest.raises(RuntimeError, match="CUDA"):
        triton.testing.do_bench_cudagraph(lambda: double[(2,)](x, out, 64, B=32), rep=1)


def test_a_kernel_may_have_its_own_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    launch = pool.load()

    def recording(request: bytes) -> int:
        asked.append(struct.unpack_from(pool.REQUEST_HEADER, request)[-1])
        return launch(request)

    monkeypatch.setattr(pool, "load", lambda: recording)
    x, out = torch.arange(64.0), torch.zeros(64)
    for count in (0, 1, 3):
        double[(2,)](x, out, 64, B=32, num_cpu_threads=count)
    assert asked == [get_num_threads(), 1, 3]
    monkeypatch.setenv("KERNELSMITH_CPU_CHECKED", "1")
    double.device_caches.clear()
    double[(2,)](x, out, 64, B=32, num_cpu_threads=2)
    double.device_caches.clear()
    assert asked[3:] == [2]

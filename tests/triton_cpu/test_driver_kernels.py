"""Whole kernels through Triton, and TorchInductor's own Triton code, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 512}, num_warps=8)], key=["n"])
@triton.jit
def tanh_times(x, out, n, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out + index, libdevice.tanh(tl.load(x + index, mask=mask)) * factor, mask=mask)


def test_an_autotuned_kernel_with_libdevice() -> None:
    x, out = torch.linspace(-5, 5, 10_001), torch.zeros(10_050)
    tanh_times[lambda config: (triton.cdiv(10_001, config["BLOCK"]),)](x, out, 10_001, 3.0)
    assert torch.allclose(out[:10_001], torch.tanh(x) * 3.0, rtol=1e-6, atol=0)
    assert not out[10_001:].any()


@triton.jit
def add_kernel(x, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out + index, tl.load(x + index, mask=mask) + 1.0, mask=mask)


def test_a_kernel_may_be_compiled_from_a_ttir_file(tmp_path: Path) -> None:
    x, out = torch.rand(100), torch.zeros(100)
    compiled = add_kernel[(1,)](x, out, 100, 128)
    path = tmp_path / "kernel.ttir"
    path.write_text(compiled.asm["ttir"])
    out.zero_()
    triton.compile(str(path))[(1, 1, 1)](x, out, 100)
    assert torch.equal(out, x + 1.0)


@triton.jit
def with_assembly(out):
    tl.store(out, tl.inline_asm_elementwise("mov $0, 1;", "=r", [], tl.int32, is_pure=True, pack=1))


def test_what_is_not_covered_is_named() -> None:
    with pytest.raises(ValueError, match=r"does not support tt\.elementwise_inline_asm"):
        with_assembly[(1,)](torch.zeros(1, dtype=torch.int32))


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],))


def gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x) + torch.fmod(x, 0.7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [softmax, rms_norm, gelu])
def test_inductors_triton_code_equals_eager(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    inductor = pytest.importorskip("torch._inductor.config")
    codecache = pytest.importorskip("torch._inductor.utils")
    torch._dynamo.reset()
    x = torch.randn(37, 1000)
    with inductor.patch(cpu_backend="triton", compile_threads=1):
        compiled = torch.compile(function)
        result, (code,) = codecache.run_and_get_code(compiled, x)
    assert "@triton.jit" in code
    assert torch.allclose(result, function(x), rtol=1e-5, atol=1e-6)


@triton.jit
def exact_kernel(x, y, roots, quotients, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    mask = index < n
    a = tl.load(x + index, mask=mask, other=1.0)
    tl.store(roots + index, tl.sqrt_rn(a), mask=mask)
    tl.store(quotients + index, tl.div_rn(a, tl.load(y + index, mask=mask, other=1.0)), mask=mask)


def test_correctly_rounded_root_and_quotient() -> None:
    x, y = torch.rand(1000) * 1e3, torch.rand(1000) + 0.1
    roots, quotients = torch.empty(1000), torch.empty(1000)
    exact_kernel[(1,)](x, y, roots, quotients, 1000, BLOCK=1024)
    assert torch.equal(roots, torch.sqrt(x.double()).float())
    assert torch.equal(quotients, (x.double() / y.double()).float())

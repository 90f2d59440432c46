"""The Triton plug-in around the code generator: discovery, options, argument passing, hooks, when it is active.

Kernels here are compiled by Triton's front end, then replaced by C++ that writes its argument slots into the first
argument, so that a test sees exactly what a kernel would.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.backends import backends
from triton.backends.compiler import GPUTarget

from kernelsmith.errors import UsageError
from kernelsmith.triton_cpu.compiler import CPUBackend, CPUOptions
from kernelsmith.triton_cpu.driver import CPUDriver
from kernelsmith.triton_cpu.isa import Isa
from kernelsmith.triton_cpu.run import launch

DUMP = (
    'extern "C" void kernelsmith_run(long lo, long hi, const int *grid, const unsigned long long *args, char *scratch)'
    "{ for (long p = lo; p < hi; p++) for (int i = 0; i < COUNT; i++)"
    " ((unsigned long long *)args[0])[p * COUNT + i] = args[i]; }"
)


def argument_types(ttir: str) -> tuple[str, ...]:
    line = next(line for line in ttir.splitlines() if "tt.func public" in line)
    return tuple(part.split(": ")[1].split(" ")[0].rstrip(",)") for part in line.split("%")[1:])


@dataclass(frozen=True)
class Dumped:
    name: str
    source: str
    arguments: tuple[str, ...]
    scratch_bytes: int = 64
    waits: bool = False
    watch: None = None


def dump_slots(ttir: str, *, fp_fusion: bool, checked: bool, isa: Isa) -> Dumped:
    types = argument_types(ttir)
    return Dumped("dump", DUMP.replace("COUNT", str(len(types))), types)


@pytest.fixture
def dumping(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from kernelsmith.triton_cpu.emit import codegen

    monkeypatch.setattr(codegen, "generate", dump_slots)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def slots(out: torch.Tensor, count: int) -> list[bytes]:
    return [struct.pack("<q", value) for value in out[:count].tolist()]


@triton.jit
def scalars(out, x, a, b, c, d, flag, n: tl.constexpr):
    tl.store(out, a + b + c + n)
    tl.store(x, d * 1.0)
    tl.store(out, flag.to(tl.int64))


@triton.jit
def nested(out, pair, x):
    tl.store(out, pair[0] + pair[1][0])
    tl.store(x, 1.0)


@triton.jit
def nothing(out, x):
    tl.store(out, tl.load(x).to(tl.int64))


def test_the_entry_point_is_found() -> None:
    assert backends["cpu"].compiler is CPUBackend
    assert backends["cpu"].driver is CPUDriver


def test_arguments_reach_the_kernel(dumping: None) -> None:
    out, x = torch.zeros(8, dtype=torch.int64), torch.zeros(4)
    scalars[(1,)](out, x, -5, 2**40, 3_000_000_000, 0.5, True, 7)
    expected = [
        struct.pack("<Q", out.data_ptr()),
        struct.pack("<Q", x.data_ptr()),
        struct.pack("<i4x", -5),
        struct.pack("<q", 2**40),
        struct.pack("<q", 3_000_000_000),
        struct.pack("<f4x", 0.5),
        struct.pack("<?7x", True),
    ]
    assert slots(out, 7) == expected


def test_numbers_out_of_range_and_bare_addresses_are_handled(dumping: None) -> None:
    out, x = torch.zeros(8, dtype=torch.int64), torch.zeros(4)
    compiled = scalars[(1,)](out, x, 5, 2**40, 2**63, -1e300, False, 7)
    assert slots(out, 7)[4] == struct.pack("<Q", 2**63)
    assert slots(out, 7)[5] == struct.pack("<f4x", float("-inf"))
    out.zero_()
    compiled[(1, 1, 1)](out.data_ptr(), x.data_ptr(), 6, 2**40, 2**63, 0.25, True, 7)
    assert slots(out, 7)[1:3] == [struct.pack("<Q", x.data_ptr()), struct.pack("<q", 6)]


def test_tuples_are_flattened(dumping: None) -> None:
    out, x = torch.zeros(8, dtype=torch.int64), torch.zeros(4)
    nested[(1,)](out, (11, (2**35, 1.5)), x)
    assert slots(out, 5) == [
        struct.pack("<Q", out.data_ptr()),
        struct.pack("<i4x", 11),
        struct.pack("<q", 2**35),
        struct.pack("<f4x", 1.5),
        struct.pack("<Q", x.data_ptr()),
    ]


def test_a_host_tensor_descriptor_becomes_address_shape_and_strides(dumping: None) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def describe(out, block):
        tl.store(out, tl.sum(block.load([0, 0])).to(tl.int64))

    out, x = torch.zeros(32, dtype=torch.int64), torch.zeros(12, 24)
    describe[(1,)](out, TensorDescriptor(x, [12, 24], [24, 1], [4, 8]))
    values = [struct.unpack("<q", slot)[0] for slot in slots(out, 12)]
    flags = 1 if triton.__version__.startswith("3.6.") else 2
    assert values[1:] == ([x.data_ptr(), 12, 24, 24, 1] + [0] * flags + [12, 24, 24, 1, 0])[:11]


def test_tensors_elsewhere_are_refused(dumping: None) -> None:
    out, x = torch.zeros(8, dtype=torch.int64), torch.zeros(4)
    nothing[(1,)](out, x)
    with pytest.raises(UsageError, match="tensor on meta"):
        nothing[(1,)](out, x.to("meta"))


def test_an_empty_grid_runs_nothing(dumping: None) -> None:
    out = torch.zeros(8, dtype=torch.int64)
    nothing[(0,)](out, torch.zeros(4))
    nothing[(3, 0, 2)](out, torch.zeros(4))
    assert not out.any()


@pytest.mark.parametrize("grid", [(2**31,), (1.5,), (-1,), (4, -2), (1, 1, -1)])
def test_an_impossible_grid_is_refused(dumping: None, grid: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match="grid"):
        nothing[grid](torch.zeros(8, dtype=torch.int64), torch.zeros(4))


def test_hooks_surround_the_launch(dumping: None) -> None:
    out, seen = torch.zeros(8, dtype=torch.int64), []
    enter: Callable[[Any], None] = lambda metadata: seen.append((metadata.get()["name"], bool(out.any())))  # noqa: E731
    leave: Callable[[Any], None] = lambda metadata: seen.append((metadata.get()["name"], bool(out.any())))  # noqa: E731
    hooks = triton.knobs.runtime
    hooks.launch_enter_hook.add(enter)
    hooks.launch_exit_hook.add(leave)
    try:
        nothing[(1,)](out, torch.zeros(4))
    finally:
        hooks.launch_enter_hook.remove(enter)
        hooks.launch_exit_hook.remove(leave)
    assert seen == [("dump", False), ("dump", True)]


def test_a_second_process_would_hit_the_cache(dumping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a launch needs is in the metadata file, since a hit runs no stage."""
    from kernelsmith.triton_cpu.emit import codegen

    @triton.jit
    def kept(out, x):
        tl.store(out, tl.load(x).to(tl.int64) + 1)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("generated again")

    out, x = torch.zeros(8, dtype=torch.int64), torch.zeros(4)
    kept[(1,)](out, x)
    monkeypatch.setattr(codegen, "generate", refuse)
    out.zero_()
    kept.device_caches.clear()
    kept[(1,)](out, x)
    assert out[0].item() == out.data_ptr()


def test_do_bench_works_without_an_accelerator(dumping: None) -> None:
    out, x = torch.zeros(8, dtype=torch.int64), torch.zeros(4)
    benchmark = triton.runtime.driver.active.get_benchmarker()
    assert benchmark(lambda: nothing[(1,)](out, x), warmup=1, rep=2) > 0


TARGET = GPUTarget("cpu", "x86_64-avx512", 1)


def test_options_of_every_triton_are_accepted_and_parsing_twice_changes_nothing() -> None:
    backend = CPUBackend(TARGET)
    given = {"num_warps": 8, "waves_per_eu": 2, "maxnreg": 64, "matrix_instr_nonkdim": 16, "extern_libs": {"a": "b"}}
    once = backend.parse_options(given)
    assert (once.num_warps, once.waves_per_eu, once.extern_libs) == (8, 2, (("a", "b"),))
    twice = backend.parse_options(once.__dict__)
    assert twice == once
    assert twice.hash() == once.hash()
    assert backend.parse_options({"num_warps": 2}).hash() != once.hash()


def test_the_number_of_warps_is_checked_as_on_a_gpu() -> None:
    with pytest.raises(AssertionError, match="must be a power of 2"):
        CPUBackend(TARGET).parse_options({"num_warps": 3})


def test_an_unknown_option_is_tritons_own_error(dumping: None) -> None:
    with pytest.raises(KeyError, match="frobnicate"):
        nothing[(1,)](torch.zeros(8, dtype=torch.int64), torch.zeros(4), frobnicate=1)


def test_kernel_arguments_do_not_become_options() -> None:
    backend = CPUBackend(TARGET)
    assert backend.parse_options({"x": object(), "num_stages": 2}) == backend.parse_options({"num_stages": 2})


def test_fp_fusion_follows_option_and_knob(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = CPUBackend(TARGET)
    assert backend.parse_options({"enable_fp_fusion": False}).enable_fp_fusion is False
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert backend.parse_options({}).enable_fp_fusion is False
    assert backend.parse_options({"enable_fp_fusion": True}).enable_fp_fusion is True


def test_the_backends_hash_names_sources_compiler_and_processor() -> None:
    from kernelsmith.triton_cpu.isa import host_fingerprint
    from kernelsmith.triton_cpu.run import build

    text = CPUBackend(TARGET).hash()
    assert launch.source_hash() in text
    assert build.find_compiler().version in text
    assert host_fingerprint() in text


def test_options_are_immutable() -> None:
    with pytest.raises(AttributeError):
        CPUOptions().num_warps = 1  # type: ignore[misc]


def test_active_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_DEFAULT_BACKEND", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert CPUDriver.is_active()


def test_out_of_the_way_beside_a_gpu_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_DEFAULT_BACKEND", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", None)
    assert not CPUDriver.is_active()
    monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "cpu")
    newer = not triton.__version__.startswith("3.6.")
    assert CPUDriver.is_active() is newer


@pytest.mark.parametrize("version", ["3.10.0", "3.7.1+git"])
def test_active_reads_any_version_text(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(triton, "__version__", version)
    monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "cpu")
    assert CPUDriver.is_active()


@pytest.mark.parametrize("module", ["compiler", "driver"])
def test_either_module_may_be_imported_before_triton(module: str) -> None:
    program = (
        f"import sys; from kernelsmith.triton_cpu import {module} as first; from triton.backends import backends;"
        f"assert sys.modules[first.__name__] is first; print(backends['cpu'].{module}.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"kernelsmith.triton_cpu.{module}"


def test_plugin_modules_import_neither_torch_nor_numpy() -> None:
    program = (
        "import sys, triton.backends, kernelsmith.triton_cpu.compiler, kernelsmith.triton_cpu.driver;"
        "print([m for m in ('torch', 'numpy', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_libdevice_is_mapped(dumping: None) -> None:
    from triton.language.extra import libdevice

    @triton.jit
    def library(out, x):
        value = tl.load(x)
        value = libdevice.pow(libdevice.sin(value), 2.0) + libdevice.rsqrt(value) + libdevice.isnan(value)
        tl.store(out, libdevice.llrint(value))

    compiled = library[(1,)](torch.zeros(8, dtype=torch.int64), torch.zeros(4))
    for symbol in ("__nv_sinf", "__nv_powf", "__nv_rsqrtf", "__nv_isnanf", "__nv_llrintf"):
        assert symbol in compiled.asm["ttir"]


def test_libdevice_has_every_function_that_cudas_has() -> None:
    from triton.language.extra.cuda import libdevice as cuda

    from kernelsmith.triton_cpu import libdevice_calls

    assert set(dir(cuda)) <= set(dir(libdevice_calls))
    assert libdevice_calls.sin is cuda.sin
    with pytest.raises(AttributeError, match="'nonsense' is not provided"):
        _ = libdevice_calls.nonsense

"""What is read from what Intel's compiler leaves, and the real thing where its toolchain is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import toolchains
from kernelsmith.compiled import Chip
from kernelsmith.errors import InfrastructureError
from kernelsmith.offline import intel
from kernelsmith.offline.compiler import answer
from kernelsmith.offline.wire import Compile, Compiled, CompilerReply
from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.wire.messages import Broken, Failed
from kernelsmith.targets import load
from tests.offline.test_builds import KERNEL

CHIP = Chip(backend="xpu", arch="pvc", warp_size=32)
MADE = """
define spir_kernel void @k(ptr addrspace(1) %0) {
  %1 = tail call spir_func <8 x float> @_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv8_sDv8_iDv8_f(<8 x i16> %a)
  %2 = tail call spir_func <8 x float> @_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv8_sDv8_iDv8_f(<8 x i16> %b)
  %3 = call spir_func float @__imf_erff(float %x)
}
declare spir_func <8 x float> @_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv8_sDv8_iDv8_f(<8 x i16>)
"""
FACTS = intel.Facts(warps=4, sub_group=16, shared=17408)


def test_matrix_instructions_and_sizes() -> None:
    found = intel.read(MADE, FACTS, 9000)
    assert found.matrix_instructions == {"dpas f16_f16_k16": 2}
    assert (found.threads, found.sub_group, found.shared_bytes, found.spirv_bytes) == (64, 16, 17408, 9000)


def test_a_function_that_its_libdevice_lacks() -> None:
    with pytest.raises(ValueError, match="Intel's libdevice has no fancyf"):
        intel.read(MADE + "declare spir_func float @__imf_fancyf(float)\n", FACTS, 9000)


def test_without_the_toolchain_nobody_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(intel.PLACE_VARIABLE, raising=False)
    with pytest.raises(InfrastructureError, match="no compiler for xpu pvc"):
        intel.compiled(KERNEL, CHIP, tmp_path)


@pytest.fixture
def installed(persons_config: None, monkeypatch: pytest.MonkeyPatch) -> None:
    there = toolchains.installed(load("intel-max"))
    if there is None:
        pytest.skip("no toolchain for Intel: kernelsmith targets install intel-max")
    for name, value in intel.told(there).items():
        monkeypatch.setenv(name, value)


def compiled(scratch: Path, old: str = "", new: str = "") -> CompilerReply:
    """What becomes of a product of 64 by 64, with something in its text replaced."""
    assert old in KERNEL.ttir
    changed = KERNEL.model_copy(update={"ttir": KERNEL.ttir.replace(old, new) if old else KERNEL.ttir})
    return answer(Compile(kernel=changed, chip=CHIP), scratch)


@pytest.mark.usefixtures("installed")
def test_a_product_on_the_matrix_unit(tmp_path: Path) -> None:
    made = compiled(tmp_path)
    assert isinstance(made, Compiled), made
    taken = made.resources
    assert list(taken.matrix_instructions) == ["dpas f16_f16_k16"]
    assert (taken.warps, taken.threads, taken.sub_group) == (4, 64, 16)
    assert (taken.shared_bytes or 0) >= 64 * 64 * 2
    assert (taken.spirv_bytes or 0) > 1000


@pytest.mark.usefixtures("installed")
def test_what_it_refuses_is_the_candidates_fault(tmp_path: Path) -> None:
    refused = compiled(tmp_path, "arith.addi", "arith.addx")
    assert isinstance(refused, Failed) and refused.outcome is Outcome.COMPILE_ERROR
    assert refused.message.startswith("Intel's compiler refuses it")
    assert "arith.addx" in refused.message


@pytest.mark.usefixtures("installed")
def test_an_interpreter_that_is_not_there_is_nobodys_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(intel.PYTHON_VARIABLE, str(tmp_path / "python3.11"))
    broken = compiled(tmp_path)
    assert isinstance(broken, Broken) and "cannot be run" in broken.message

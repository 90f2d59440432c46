"""Real compilations for devices that are not here, in confined processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith.compiled import Chip
from kernelsmith.offline.builds import Builds, Spawn
from kernelsmith.offline.wire import Compiled
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Kernel
from kernelsmith.sandbox.children.zygote import Child, Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.wire.messages import Failed

HOPPER, CDNA3 = Chip(backend="cuda", arch=90, warp_size=32), Chip(backend="hip", arch="gfx942", warp_size=64)
LIMITS = Limits(seconds=120, memory_bytes=4 << 30)
MULTIPLY = """
module {
  tt.func public @multiply(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32},
                          %c: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %zero = arith.constant dense<0.000000e+00> : tensor<64x64xf32>
    %width = arith.constant dense<64> : tensor<64x1xi32>
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %m = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
    %n = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
    %row = arith.muli %m, %width : tensor<64x1xi32>
    %rows = tt.broadcast %row : tensor<64x1xi32> -> tensor<64x64xi32>
    %columns = tt.broadcast %n : tensor<1x64xi32> -> tensor<64x64xi32>
    %at = arith.addi %rows, %columns : tensor<64x64xi32>
    %sa = tt.splat %a : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
    %pa = tt.addptr %sa, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    %x = tt.load %pa : tensor<64x64x!tt.ptr<f16>>
    %y = tt.dot %x, %x, %zero : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %sc = tt.splat %c : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>>
    %pc = tt.addptr %sc, %at : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32>
    tt.store %pc, %y : tensor<64x64x!tt.ptr<f32>>
    tt.return
  }
}
"""
KERNEL = Kernel(name="multiply", ttir=MULTIPLY, signature=("*fp16", "*fp32"), options={"num_warps": 4})


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote(preload=("torch", "triton", "kernelsmith.offline.compiler")) as zygote:
        yield zygote


@pytest.fixture(scope="module")
def spawn(zygote: Zygote) -> Spawn:
    return lambda role, limits, label: zygote.spawn(role, limits=limits, label=label)


def nobody(role: str, limits: Limits, label: str) -> Child:
    raise AssertionError("what is known is compiled again")


def test_compiles_for_both_vendors_and_once(spawn: Spawn, tmp_path: Path) -> None:
    wanted = [(KERNEL, HOPPER), (KERNEL, CDNA3), (KERNEL, HOPPER)]
    nvidia, amd, again = Builds(spawn, LIMITS, tmp_path).all(wanted)
    assert isinstance(nvidia, Compiled), nvidia
    assert isinstance(amd, Compiled), amd
    assert again == nvidia
    assert nvidia.resources.matrix_instructions.keys() & {"HGMMA", "HMMA"}
    assert 0 < (nvidia.resources.registers or 0) <= 255
    assert nvidia.resources.spill_bytes == 0
    assert nvidia.resources.threads == 128
    assert (nvidia.resources.shared_bytes or 0) >= 64 * 64 * 2
    assert max(nvidia.resources.loads) == max(amd.resources.loads) == 16
    assert any(name.startswith("v_mfma") for name in amd.resources.matrix_instructions)
    assert amd.resources.threads == 256
    assert Builds(nobody, LIMITS, tmp_path).all(wanted) == [nvidia, amd, nvidia]


def test_a_text_that_is_no_kernel_is_the_candidates_fault(spawn: Spawn) -> None:
    broken = KERNEL.model_copy(update={"ttir": MULTIPLY.replace("%rows, %columns", "%rows, %nothing")})
    unknown = Chip(backend="cuda", arch=9999, warp_size=32)
    text, chip = Builds(spawn, LIMITS, None).all([(broken, HOPPER), (KERNEL, unknown)])
    assert isinstance(text, Failed)
    assert text.outcome is Outcome.COMPILE_ERROR
    assert "use of undeclared SSA value" in text.message
    assert isinstance(chip, Failed)
    assert chip.outcome is Outcome.COMPILE_ERROR


def test_a_compilation_that_takes_long_is_ended(spawn: Spawn) -> None:
    (made,) = Builds(spawn, LIMITS, None, seconds=0.05).all([(KERNEL, HOPPER)])
    assert isinstance(made, Failed)
    assert made.outcome is Outcome.TIMEOUT
    assert "did not finish within 0.05 s" in made.message

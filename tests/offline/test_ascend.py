"""What is read from what Ascend's compiler leaves, and the real thing where its toolchain is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import toolchains
from kernelsmith.compiled import Chip, Resources
from kernelsmith.errors import InfrastructureError
from kernelsmith.offline import ascend, builds
from kernelsmith.outcome import Outcome
from kernelsmith.plan import ASCEND_OPTIONS, Kernel
from kernelsmith.sandbox.wire.messages import Failed
from kernelsmith.targets import load

PLANNED = """
    %c0_i64 = arith.constant 0 : i64
    %c8192_i64 = arith.constant 8192 : i64
    %c16384_i64 = arith.constant 16384 : i64
    %0 = hivm.hir.pointer_cast(%c0_i64, %c8192_i64) : memref<2048xf32, #hivm.address_space<ub>>
    %1 = hivm.hir.pointer_cast(%c16384_i64) : memref<100xbf16, #hivm.address_space<ub>>
    %2 = hivm.hir.pointer_cast(%c0_i64) : memref<2x2x16x16xf16, #hivm.address_space<cbuf>>
    hivm.hir.pipe_barrier[<PIPE_V>]
    scf.for %arg1 = %c0 to %c8 step %c1 {
      scf.for %arg2 = %c0 to %c8 step %c1 {
        %3 = memref.load %0[%arg2] : memref<2048xf32, #hivm.address_space<ub>>
        memref.store %3, %1[%arg2] : memref<100xbf16, #hivm.address_space<ub>>
      }
      hivm.hir.pipe_barrier[<PIPE_V>]
    }
    %4 = memref.load %0[%c0] : memref<2048xf32, #hivm.address_space<ub>>
    scf.for %arg1 = %c0 to %c8 step %c1 {
      func.call @vmul_1d_float(%0) : (memref<2048xf32, #hivm.address_space<ub>>) -> ()
    }
"""
DOUBLE = """
module {
  tt.func public @double(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %lanes = tt.make_range {end = SIZE : i32, start = 0 : i32} : tensor<SIZExi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<SIZEx!tt.ptr<f32>>
    %px = tt.addptr %xs, %lanes : tensor<SIZEx!tt.ptr<f32>>, tensor<SIZExi32>
    %v = tt.load %px : tensor<SIZEx!tt.ptr<f32>>
    %w = arith.addf %v, %v : tensor<SIZExf32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<SIZEx!tt.ptr<f32>>
    %py = tt.addptr %ys, %lanes : tensor<SIZEx!tt.ptr<f32>>, tensor<SIZExi32>
    tt.store %py, %w : tensor<SIZEx!tt.ptr<f32>>
    tt.return
  }
}
"""
CHIP = Chip(backend="npu", arch="Ascend910B3", warp_size=0)


def test_the_highest_byte_of_each_memory() -> None:
    assert ascend.local_memory(PLANNED) == {"ub": 16384 + 200, "cbuf": 2048}


def test_loops_over_single_elements() -> None:
    assert ascend.scalar_loops(PLANNED) == 1, "neither the loop around it, nor one load, nor a loop of vector calls"


def test_resources() -> None:
    found = ascend.read(PLANNED, 'func.func @k() attributes {mix_mode = "aiv"}')
    assert (found.unified_buffer_bytes, found.l1_bytes, found.l0c_bytes) == (16584, 2048, 0)
    assert (found.scalar_loops, found.barriers, found.matrix_instructions) == (1, 2, {})


def test_without_the_toolchain_nobody_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ascend.PLACE_VARIABLE, raising=False)
    with pytest.raises(InfrastructureError, match="no compiler for npu Ascend910B3"):
        ascend.compiled(double(128), CHIP, tmp_path)


def double(size: int) -> Kernel:
    return Kernel(name="double", ttir=DOUBLE.replace("SIZE", str(size)), signature=("*fp32", "*fp32"))


PLANS = """#!/bin/sh
echo "$@" > {here}/asked
for word; do case $word in --save-temps=*) kept=${{word#*=}};; esac; done
mkdir $kept && touch $kept/module.hivm.opt.mlir
echo "{said}"
exit 1
"""


def stand_in(here: Path, monkeypatch: pytest.MonkeyPatch, *, lowers: str = "touch $out", said: str) -> None:
    """A toolchain whose programs do as told: `out` is the file that the first one is to write."""
    adapter, planner = here / "triton/backends/ascend/triton-adapter-opt", here / "ascendnpuir/bin/bishengir-compile"
    texts = {adapter: f"#!/bin/sh\nfor out; do :; done\n{lowers}\n", planner: PLANS.format(here=here, said=said)}
    for path, text in texts.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv(ascend.PLACE_VARIABLE, str(here))


def outcome(found: Resources | Failed) -> tuple[Outcome, str]:
    assert isinstance(found, Failed), found
    return found.outcome, found.message


@pytest.mark.parametrize(
    ("memory", "says"),
    [
        ("cbuf", "100 bytes of L1 buffer, there are 50: it holds the operands of tl.dot"),
        ("cc", "100 bytes of L0C accumulators, there are 50: it holds what tl.dot adds up"),
        ("ub", "100 bytes of unified buffer, there are 50: fewer elements per program"),
    ],
)
def test_what_does_not_fit_is_told_with_what_to_do(
    memory: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, said=f"error: {memory} overflow, requires 800 bits while 400 bits available")
    kind, message = outcome(ascend.compiled(double(128), CHIP, tmp_path))
    assert kind is Outcome.RESOURCE_LIMIT and says in message


def test_both_programs_together_have_one_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ascend.SECONDS < builds.SECONDS, "else its process is killed before it can say what took so long"
    monkeypatch.setattr(ascend, "SECONDS", 0.5)
    stand_in(tmp_path, monkeypatch, lowers="exec sleep 60", said="")
    kind, message = outcome(ascend.compiled(double(128), CHIP, tmp_path))
    assert kind is Outcome.TIMEOUT and message.startswith("triton-adapter-opt did not finish within 0.5 s")


def test_a_lowering_that_failed_is_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, lowers="touch $out; echo 'LLVM ERROR: Not implemented' >&2; exit 3", said="")
    kind, message = outcome(ascend.compiled(double(128), CHIP, tmp_path))
    assert (kind, message) == (Outcome.COMPILE_ERROR, "Ascend's front end refuses it: LLVM ERROR: Not implemented")
    assert not (tmp_path / "asked").exists()


def test_words_of_its_authors_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complaint = "encountered AddPtrOp produced by unsupported operation"
    stand_in(tmp_path, monkeypatch, lowers=f"echo '<block argument>\n{complaint}' >&2; exit 134", said="")
    _, message = outcome(ascend.compiled(double(128), CHIP, tmp_path))
    assert message.startswith(
        f"Ascend's front end refuses it: {complaint}; lanes (tl.arange), or an address, that a loop"
    )


def test_every_launch_option_has_its_flag() -> None:
    assert set(ascend._FLAGS) == ASCEND_OPTIONS


def test_launch_options_reach_the_planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, said="Cannot find hivmc")
    options = {"multibuffer": False, "set_workspace_multibuffer": 2, "num_warps": 4}
    found = ascend.compiled(double(128).model_copy(update={"options": options}), CHIP, tmp_path)
    assert isinstance(found, Resources)
    asked = (tmp_path / "asked").read_text().split()
    assert {"--enable-auto-multi-buffer=false", "--set-workspace-multibuffer=2"} < set(asked)
    assert "--enable-auto-bind-sub-block=true" in asked and not any("warps" in word for word in asked)


@pytest.fixture
def installed(persons_config: None, monkeypatch: pytest.MonkeyPatch) -> None:
    place = toolchains.located(load("ascend-910b3"))
    if place is None:
        pytest.skip("no toolchain for Ascend: kernelsmith targets install ascend-910b3")
    monkeypatch.setenv(ascend.PLACE_VARIABLE, str(place))


@pytest.mark.usefixtures("installed")
def test_a_block_that_fits(tmp_path: Path) -> None:
    found = ascend.compiled(double(4096), CHIP, tmp_path)
    assert isinstance(found, Resources)
    assert found.unified_buffer_bytes == 4 * 4096, "added in place"
    assert found.scalar_loops == 0


@pytest.mark.usefixtures("installed")
def test_a_block_that_does_not(tmp_path: Path) -> None:
    found = ascend.compiled(double(65536), CHIP, tmp_path)
    assert isinstance(found, Failed) and found.outcome is Outcome.RESOURCE_LIMIT
    assert found.message.startswith("ub overflow: a program needs ")
    assert "bytes of unified buffer, there are 196,608: fewer elements per program" in found.message


@pytest.mark.usefixtures("installed")
def test_a_text_that_its_front_end_refuses(tmp_path: Path) -> None:
    nonsense = double(128).model_copy(update={"ttir": double(128).ttir.replace("arith.addf", "arith.adds")})
    found = ascend.compiled(nonsense, CHIP, tmp_path)
    assert isinstance(found, Failed) and found.outcome is Outcome.COMPILE_ERROR
    assert "arith.adds" in found.message

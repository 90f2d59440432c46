"""GPU kernels: what can be built without a GPU is built here; the rest needs one and skips itself."""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import torch

from kernelsmith import targets
from kernelsmith.devices import MODULE_VARIABLE, TARGET_VARIABLE, TORCH_VARIABLE, kernels
from kernelsmith.devices.generic import TorchDevice
from kernelsmith.devices.profile import profile
from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Job, OperatorRef
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Kernel
from kernelsmith.sandbox.children.zygote import ChildEnded, Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.replay.probe import check_clock, copy_rate
from kernelsmith.sandbox.roles import PROBE, WARM
from tests.evaluate.test_evaluate import HOST, OPERATOR, RIGHT
from tests.sandbox.test_launcher import ADD, KERNEL

HOPPER, ELF = ("cuda", 90, 32), b"\x7fELF"


def target(backend: str, arch: int | str, warp_size: int) -> object:
    from triton.backends.compiler import GPUTarget

    return GPUTarget(backend, arch, warp_size)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("given", "binary"), [(HOPPER, "cubin"), (("cuda", 80, 32), "cubin"), (("hip", "gfx942", 64), "hsaco")]
)
def test_a_plans_kernel_becomes_a_binary_without_a_device(given: tuple[str, int | str, int], binary: str) -> None:
    compiled = kernels.compile_ttir(KERNEL.model_copy(update={"options": {"num_warps": 2}}), target(*given))
    assert compiled.asm[binary].startswith(ELF)
    assert compiled.metadata.num_warps == 2, "options travel with the plan: TTIR omits them"
    assert compiled.src.signature == {0: "*fp32", 1: "*fp32", 2: "fp32"}


def test_the_binary_is_the_one_that_triton_makes_from_the_python() -> None:
    import triton
    from triton.compiler import ASTSource

    from tests.devices.kernels import scale

    signature = {"x": "*fp16", "y": "*fp16", "n": "i32", "s": "fp32", "B": "constexpr"}
    attributes = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
    whole = triton.compile(ASTSource(scale, signature, {"B": 128}, attributes), target=target(*HOPPER))
    plan = Kernel(name="scale", ttir=whole.asm["ttir"], signature=("*fp16", "*fp16", "i32", "fp32"))
    again = kernels.compile_ttir(plan, target(*HOPPER))
    assert again.asm["cubin"] == whole.asm["cubin"]
    assert list(again.src.signature.values()) == ["*fp16", "*fp16", "i32", "fp32"]


def test_a_machine_that_cannot_compile_is_not_the_kernels_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("triton.compile", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        kernels.compile_ttir(KERNEL, target(*HOPPER))


def test_what_the_compiler_refuses_is_the_kernels_fault(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="Parse MLIR"):
        kernels.compile_ttir(Kernel(name="add", ttir="module { nonsense }", signature=()), target(*HOPPER))
    assert "nonsense" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("spelled", "kind"),
    [("!tt.ptr<f16>", "*fp16"), ("!tt.ptr<!tt.ptr<i8>>", "**i8"), ("f64", "fp64"), ("u64", "i64"), ("*bf16", "*bf16")],
)
def test_types_are_those_that_launchers_know(spelled: str, kind: str) -> None:
    assert kernels.kind_of(spelled) == kind


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_kernel_runs_and_is_timed_on_the_device() -> None:
    device = TorchDevice("cuda")
    assert copy_rate(device) > 1e9
    check_clock(device)
    kernel = device.compile(KERNEL)
    x, y = device.place(torch.arange(8.0).view(torch.uint8)), device.reserve(32)
    run = kernel.bind((1, 1, 1), [x.data_ptr(), y.data_ptr(), 2.5])
    assert device.time([run, run]) > 0
    assert y.view(torch.float32).tolist() == [i + 2.5 for i in range(8)]
    kernel.bind((0, 1, 1), [0, 0, 1.0])()
    device.limit_memory(1 << 30)
    with pytest.raises(MemoryError, match="device memory"):
        device.reserve(2 << 30)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_clock_counts_the_device_and_not_the_launches() -> None:
    device = TorchDevice("cuda")
    kernel = device.compile(Kernel(name="add", ttir=ADD, signature=KERNEL.signature))
    x, y = device.reserve(32), device.reserve(32)
    run = kernel.bind((1, 1, 1), [x.data_ptr(), y.data_ptr(), 1.0])
    one, many = (sorted(device.time([run] * n) for _ in range(9))[4] for n in (1, 100))
    assert many < 100 * max(one, 5_000), "100 launches of nothing are less than 5 microseconds each on the device"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_candidate_is_proven_and_timed_on_the_card(tmp_path: Path) -> None:
    (tmp_path / "blend.py").write_text(OPERATOR)
    model = torch.cuda.get_device_name(0)  # not every machine has the files by which `choose` tells
    known = [one for one in map(targets.load, targets.available()) if one.torch_device == "cuda"]
    (target,) = [one for one in known if any(re.search(rf"\b{word}\b", model) for word in one.reported_as)]
    job = Job(operator=OperatorRef(path=str(tmp_path / "blend.py")), target=target.name, source=RIGHT + HOST, seed=3)
    with closing(Room(target.name, unsafe_no_sandbox=True)) as room:  # where it cannot be confined; it is ours
        found = evaluate(job, room)
        wrong = evaluate(job.model_copy(update={"source": RIGHT.replace("0.5", "0.25") + HOST}), room)
    assert found.outcome is Outcome.PASSED, found.message
    assert found.timings[0].speedup.keys() == {"eager", "compile"}, found.notes
    assert wrong.outcome is Outcome.WRONG_VALUES


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_profiler_and_events_agree() -> None:
    device = TorchDevice("cuda")
    source, copy = device.reserve(256 << 20), device.reserve(256 << 20)

    def call() -> None:
        copy.copy_(source)
        device.finish()

    seen = profile("cuda", call)
    if seen.note:
        pytest.skip(seen.note)
    assert seen.nanoseconds == pytest.approx(device.time([partial(copy.copy_, source)]), rel=0.2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the probe would find a GPU")
def test_a_zygote_for_a_gpu_compiles_for_it_and_touches_no_device() -> None:
    """It would not start with a second thread, which a context brings."""
    module = "kernelsmith.devices.generic"
    environment = {TARGET_VARIABLE: "cuda:90:32", MODULE_VARIABLE: module, TORCH_VARIABLE: "cuda"}
    made = Zygote(preload=("torch", "triton", module), warm=WARM, environment=environment)
    with made as zygote, zygote.spawn(PROBE, limits=Limits()) as child, pytest.raises(ChildEnded) as ended:
        child.request(b"{}", seconds=60.0)
    assert "CUDA" in ended.value.exit.log, "this machine has no GPU, and the probe says so"

"""The path of every accelerator, end to end and without one: a stand-in for torch's device, made of Python, and the CPU
backend of Triton for the vendor's compiler. It takes processes of its own, since a device is registered once."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kernelsmith import resources
from kernelsmith.devices import MODULE_VARIABLE, PLUGIN_VARIABLE, TORCH_VARIABLE
from kernelsmith.evaluate import evaluate as judging
from kernelsmith.evaluate.room import room as opening
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.sandbox.children.zygote import Zygote
from tests.evaluate.test_evaluate import HOST, OPERATOR, RIGHT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TARGET = """
name = "stand-in"
summary = "a torch device made of Python"
torch_device = "stand"
plugin = "stand_torch"
module = "kernelsmith.devices.generic"
cache_flush_bytes = 1_048_576

[triton]
distribution = "triton"
at_least = "3.6"
below = "3.10"
backend = "cpu"
warp_size = 1

[access]
cards = "/dev/zer[o]"

[sources]
torch_device = "tests/devices/stand_torch.py"
plugin = "tests/devices/stand_torch.py"
cache_flush_bytes = "a test"
triton = "a test"
access = "a test"
"""
BEGIN = """
import pytest, torch
from kernelsmith.devices import DeviceFaultError, open_device
from tests.sandbox.test_launcher import KERNEL

device = open_device()
import stand_torch

x, y = device.place(torch.arange(8.0).view(torch.uint8)), device.reserve(32)
kernel = device.compile(KERNEL)
run = kernel.bind((1, 1, 1), [x.data_ptr(), y.data_ptr(), 2.5])
"""


SERVE = """
import contextlib, io, json, os, sys, traceback

for line in sys.stdin:
    if os.fork():
        os.wait()
        continue
    program, environment = json.loads(line)
    os.environ.update(environment)
    said, trouble = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(said):
            exec(program)
    except BaseException:
        trouble = traceback.format_exc()
    print(json.dumps([said.getvalue(), trouble]), flush=True)
    os._exit(0)
"""


class OnTheStandIn:
    """Programs in forks of a process that has opened the device, placed x, and bound a kernel from x to y."""

    def __init__(self) -> None:
        device = {
            MODULE_VARIABLE: "kernelsmith.devices.generic",
            TORCH_VARIABLE: "stand",
            PLUGIN_VARIABLE: "stand_torch",
            "PYTHONPATH": f"{HERE}{os.pathsep}{ROOT}",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN + SERVE],
            env={**os.environ, **device},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, program: str, **environment: str) -> str:
        """What it prints; fails where it does."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([program, environment]) + "\n")
        self.process.stdin.flush()
        said, trouble = json.loads(self.process.stdout.readline())
        assert not trouble, trouble
        return str(said)


@pytest.fixture(scope="module")
def on_the_stand_in() -> Iterator[OnTheStandIn]:
    serving = OnTheStandIn()
    yield serving
    serving.process.communicate()


def test_a_kernel_runs_on_the_devices_memory_and_its_queue_is_timed(on_the_stand_in: OnTheStandIn) -> None:
    """Zero, one or many launches take what the queue takes for them, and not what Python does."""
    on_the_stand_in("""
assert x.device.type == "stand" and x.data_ptr() % 512 == 0
run()
device.finish()
assert y.cpu().view(torch.float32).tolist() == [i + 2.5 for i in range(8)]
kernel.bind((0, 1, 1), [0, 0, 1.0])()
device.allocate(64, 128, None)

each = round(stand_torch.KERNEL_SECONDS * 1e9)
assert device.time([]) < each / 100
for count in (1, 40):
    best = min(device.time([run] * count) for _ in range(3))
    assert best == pytest.approx(count * each, rel=0.02), (count, best)

def waiting():
    run()
    device.finish()

assert min(device.time([waiting, waiting]) for _ in range(3)) >= 2 * each
with device.abreast(turns=False), device.timed():
    run()
""")


def test_a_device_that_can_sleep_does_so_whatever_it_counts(on_the_stand_in: OnTheStandIn) -> None:
    on_the_stand_in("""
slept = []

def sleep(cycles):
    slept.append(cycles)
    stand_torch.QUEUE.work(lambda: None, cycles / 1e8)

stand_torch.Module._sleep = staticmethod(sleep)
before = stand_torch.Module.used_bytes
each = round(stand_torch.KERNEL_SECONDS * 1e9)
assert min(device.time([run] * 20) for _ in range(3)) == pytest.approx(20 * each, rel=0.02)
assert slept[-1] / 1e8 < 0.02, "what it counts was measured, not taken to be what a GPU counts"
assert stand_torch.Module.used_bytes == before, "nothing is copied there"
""")


def test_memory_is_bounded_by_torch_and_piece_by_piece(on_the_stand_in: OnTheStandIn) -> None:
    on_the_stand_in("""
device.limit_memory(1 << 20)
assert stand_torch.Module.limit_bytes == 1 << 20
with pytest.raises(MemoryError, match="are asked for"):
    device.reserve(2 << 20)
held = []
with pytest.raises(MemoryError, match="stand: .* are not free"):
    for _ in range(9):
        held.append(device.reserve(1 << 18))
""")


def test_a_fault_shows_when_somebody_waits_and_stays(on_the_stand_in: OnTheStandIn) -> None:
    on_the_stand_in(
        """
run()
for wait in (device.finish, lambda: device.time([run])):
    with pytest.raises(DeviceFaultError, match="where nothing is"):
        wait()
""",
        STAND_BREAKS="1",
    )


def test_the_devices_clock_is_held_against_the_processors(on_the_stand_in: OnTheStandIn) -> None:
    on_the_stand_in("""
from kernelsmith.sandbox.replay.probe import check_clock, copy_rate

check_clock(device)
assert copy_rate(device) > 0
elapsed = stand_torch.Event.elapsed_time
stand_torch.Event.elapsed_time = lambda self, end: elapsed(self, end) * 1e3  # of another unit
with pytest.raises(RuntimeError, match="clock counts"):
    check_clock(device)
""")


def test_what_the_device_lacks_is_computed_on_the_cpu_in_silence_until_it_is_refused(
    on_the_stand_in: OnTheStandIn,
) -> None:
    said = on_the_stand_in("""
from kernelsmith.devices import fallback

floats = x.view(torch.float32)
whole = torch.exp(floats).cpu()
kept = fallback.refuse("stand")
with pytest.raises(fallback.FallbackError):
    torch.exp(floats)
with pytest.raises(fallback.FallbackError) as named:
    fallback.named(lambda: torch.exp(floats * 2))
print(named.value)
fallback.named(lambda: floats * 2)
with pytest.raises(ZeroDivisionError):
    fallback.named(lambda: 1 / 0)

for words in ("call aclnnExp failed: DT_DOUBLE is not supported", "CPU fallback is disabled by TORCH_NPU_FALLBACK"):
    def unknown():
        raise RuntimeError(words)

    with pytest.raises(fallback.FallbackError, match=words):
        fallback.named(unknown)
assert torch.equal(floats.cpu().exp(), whole)
""")
    assert said.strip() == "the device has no aten.exp.default"


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A room on the stand-in, whose children and baseline find its plugin."""
    folder = tmp_path_factory.mktemp("targets")
    (folder / "stand-in.toml").write_text(TARGET)
    (folder / "cpu.toml").write_text(resources.read("targets", "cpu.toml"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE))
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        patch.setattr(opening, "Zygote", functools.partial(Zygote, path=[str(HERE)]))
        with closing(Room("stand-in", targets=folder)) as room:
            yield room


def judged(card: Room, source: str, folder: Path, *, bench: bool) -> Evaluation:
    (folder / "blend.py").write_text(OPERATOR)
    job = Job(
        operator=OperatorRef(path=str(folder / "blend.py")),
        target="stand-in",
        source=source,
        seed=3,
        bench=bench,
        check_seconds=1.0,
        bench_seconds=0.5,
        baselines=("eager",),
        located=False,
    )
    return judging.evaluate(job, card)


def test_the_judge_proves_and_times_a_kernel_there_and_says_what_the_device_lacks(card: Room, tmp_path: Path) -> None:
    """The operator needs exp, which the device has not: torch's own baseline goes through the CPU."""
    found = judged(card, RIGHT + HOST, tmp_path, bench=True)
    assert (found.outcome, found.stage) == (Outcome.PASSED, Stage.BENCH), found.message
    assert found.timings[0].baselines["eager"] > 0 and found.timings[0].median_ms > 0
    assert any("the eager baseline is a round trip through the CPU" in note for note in found.notes), found.notes
    assert any("because the device has no aten.exp.default" in note for note in found.notes)


def test_a_wrong_kernel_is_wrong_there_too(card: Room, tmp_path: Path) -> None:
    found = judged(card, RIGHT.replace("0.5", "0.25") + HOST, tmp_path, bench=False)
    assert found.outcome is Outcome.WRONG_VALUES


def test_every_step_of_the_first_day_works_there(on_the_stand_in: OnTheStandIn, tmp_path: Path) -> None:
    (tmp_path / "stand-in.toml").write_text(TARGET)
    said = on_the_stand_in(f"""
import functools
from benchmarks import first_day
from kernelsmith.evaluate.room import room

room.Zygote = functools.partial(room.Zygote, path=[{str(HERE)!r}])
sys.argv = ["first_day", "stand-in", "--targets", {str(tmp_path)!r}]
assert first_day.main() == 0
assert first_day.failed(first_day.Step("an impossible one", lambda: str(1 // 0)))
sys.argv[1] = "cpu"
assert first_day.main() == 2
""")
    assert said.startswith("stand-in on stand:0\nok ") and "\nFAILED an impossible one: ZeroDivisionError" in said
    assert "ok     in the sandbox: a process as candidates' are copies at" in said
    assert "ok     kernel from TTIR: one launch 1000.0 us, each of 50 1000.0 us" in said


PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 4)

    def forward(self, x):
        return ACTIVATION(self.linear(x))

def get_inputs():
    return [torch.rand(8, 16)]

def get_init_inputs():
    return [16]
"""


@pytest.mark.parametrize(("activation", "lacks"), [("torch.relu", ""), ("torch.exp", "aten.exp.default")])
def test_a_models_parameters_are_where_its_baseline_runs(
    on_the_stand_in: OnTheStandIn, tmp_path: Path, activation: str, lacks: str
) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM.replace("ACTIVATION", activation))
    said = on_the_stand_in(f"""
from kernelsmith.evaluate.clock.baseline import Baselines
from kernelsmith.evaluate.truth.questions import Build, Clock, Lift, Open
from kernelsmith.model import OperatorRef

ref = OperatorRef(path={str(tmp_path / "problem.py")!r})
baselines = Baselines(Open(operator=ref, model_seed=1, threads=1))
built = baselines.answer(Build(baseline="eager", workload=0, seeds=(1, 2)))
assert built.available, built.reason
assert baselines.answer(Clock(baseline="eager", workload=0, pool=0, flush_bytes=1 << 20)).nanoseconds > 0
assert baselines.answer(Lift()).seeds, "kernels are still lifted from the model on the CPU"
print(built.round_trip)
""")
    assert lacks in said and bool(lacks) == bool(said.strip())


def test_a_round_trip_brings_back_what_the_reference_changes(on_the_stand_in: OnTheStandIn) -> None:
    on_the_stand_in("""
from kernelsmith.evaluate.clock.baseline import through_cpu

def both(scale, tensors):
    tensors[1].mul_(scale)
    tensors[0].add_(100.0)
    return tensors[1].exp(), [tensors[0]]

first, second = (device.place(torch.arange(4.0).view(torch.uint8)).view(torch.float32) for _ in range(2))
answer, (changed,) = through_cpu(both, [1])(2.0, [first, second])
assert second.cpu().tolist() == [0.0, 2.0, 4.0, 6.0] and first.cpu().tolist() == [0.0, 1.0, 2.0, 3.0]
assert answer.device == changed.device == second.device and changed.cpu().tolist() == [100.0, 101.0, 102.0, 103.0]
""")

"""How near the times of confined replays are to those of the same kernel in a plain script, from 20 us to 50 ms.

Both take turns, sample by sample, so that both meet the same load; the figure is the ratio that is furthest from 1.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import torch

from benchmarks.sandbox.line import Line
from kernelsmith.evaluate.clock.baseline import ENVIRONMENT
from kernelsmith.evaluate.sessions.session import LauncherSession
from kernelsmith.plan import (
    InputBuffer,
    Kernel,
    Launch,
    LaunchPlan,
    PointerArgument,
    ScalarArgument,
    ScratchBuffer,
    View,
)
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.roles import PRELOAD, WARM
from kernelsmith.sandbox.wire.arguments import Region
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import Sample
from kernelsmith.triton_cpu.run.cores import usable_cores

BLOCK = 1024
FLUSH_BYTES = 64 << 20
DURATIONS_US = (20, 100, 1_000, 10_000, 50_000)
LARGE = 16 << 20
"""Elements of the one that moves memory and computes nothing: 64 MB in, 64 MB out."""
SMALL = 64 << 10
GOAL_PERCENT = 3.0
PAIRS_PER_ROUND = 5
VECTOR = f"tensor<{BLOCK}xf32>"
TTIR = f"""module {{
  tt.func public @repeat(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %block = arith.constant {BLOCK} : i32
    %half = arith.constant dense<5.000000e-01> : {VECTOR}
    %program = tt.get_program_id x : i32
    %first = arith.muli %program, %block : i32
    %range = tt.make_range {{end = {BLOCK} : i32, start = 0 : i32}} : tensor<{BLOCK}xi32>
    %firsts = tt.splat %first : i32 -> tensor<{BLOCK}xi32>
    %at = arith.addi %firsts, %range : tensor<{BLOCK}xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<{BLOCK}x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %at : tensor<{BLOCK}x!tt.ptr<f32>>, tensor<{BLOCK}xi32>
    %v = tt.load %xp : tensor<{BLOCK}x!tt.ptr<f32>>
    %r = scf.for %i = %zero to %n step %one iter_args(%a = %v) -> ({VECTOR})  : i32 {{
      %e = math.exp %a : {VECTOR}
      %h = arith.mulf %e, %half : {VECTOR}
      scf.yield %h : {VECTOR}
    }}
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<{BLOCK}x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %at : tensor<{BLOCK}x!tt.ptr<f32>>, tensor<{BLOCK}xi32>
    tt.store %yp, %r : tensor<{BLOCK}x!tt.ptr<f32>>
    tt.return
  }}
}}
"""
KERNEL = Kernel(name="repeat", ttir=TTIR, signature=("*fp32", "*fp32", "i32"))


def lines(rounds: int) -> list[Line]:
    """The worst of all durations, and that of plain memory traffic."""
    ratios = measure(rounds)
    words = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
    worst = max(abs(ratio - 1) for ratio in ratios.values()) * 100
    return [Line("replayed times", worst, GOAL_PERCENT, "%", False, f"off a plain script's: {words}")]


def measure(rounds: int) -> dict[str, float]:
    """Median ratio of paired samples, confined over plain, by duration."""
    threads = usable_cores()
    torch.set_num_threads(1)  # as in a judge: threads of OpenMP would spin on a core for milliseconds after each draw
    environment = {**ENVIRONMENT, "KERNELSMITH_CPU_THREADS": str(threads)}
    limits = Limits(seconds=3600, threads=threads)
    ratios: dict[str, float] = {}
    with (
        Zygote(preload=PRELOAD, warm=WARM, environment=environment) as zygote,
        closing(LauncherSession(zygote, limits, ArenaPool())) as launcher,
        _plain_script(SMALL, environment) as small,
        _plain_script(LARGE, environment) as large,
    ):
        launcher.rest()
        for duration in DURATIONS_US:
            repeats = _repeats(small, duration * 1000)
            ratios[f"{duration} us"] = _paired(small, launcher, SMALL, repeats, rounds)
        ratios["128 MB moved"] = _paired(large, launcher, LARGE, 0, rounds)
    return ratios


def _paired(plain: subprocess.Popen[str], launcher: LauncherSession, elements: int, repeats: int, rounds: int) -> float:
    plan_id = launcher.prepare(_plan(elements, repeats), None, 60).plan_id
    inputs = launcher.desk.inputs(4 * elements)
    request = Sample(plan_id=plan_id, inputs=(Region(offset=0, nbytes=4 * elements),), flush_bytes=FLUSH_BYTES)
    ratios = []
    for _ in range(max(1, rounds) * PAIRS_PER_ROUND):
        x = torch.frombuffer(inputs.buffer, dtype=torch.float32, count=elements)
        x.copy_(torch.rand(elements))
        ratios.append(launcher.sample(request, inputs, seconds=60).nanoseconds / _sample(plain, repeats))
    launcher.forget(plan_id)
    return statistics.median(ratios)


def _plan(elements: int, repeats: int) -> LaunchPlan:
    nbytes = 4 * elements
    views = [View(buffer=n, dtype="float32", shape=(elements,), strides=(1,)) for n in (0, 1)]
    x, y = (PointerArgument(view=view) for view in views)
    return LaunchPlan(
        buffers=(InputBuffer(index=0, nbytes=nbytes), ScratchBuffer(nbytes=nbytes)),
        kernels=(KERNEL,),
        steps=(Launch(kernel=0, grid=(elements // BLOCK, 1, 1), arguments=(x, y, ScalarArgument(value=repeats))),),
        outputs=(views[1],),
    )


def _repeats(plain: subprocess.Popen[str], nanoseconds: int) -> int:
    """How many make a kernel of about that duration."""
    trial = 16
    base = min(_sample(plain, 0) for _ in range(5))
    each = max(1.0, (min(_sample(plain, trial) for _ in range(5)) - base) / trial)
    return max(0, round((nanoseconds - base) / each))


def _sample(plain: subprocess.Popen[str], repeats: int) -> int:
    assert plain.stdin is not None and plain.stdout is not None
    plain.stdin.write(f"{repeats}\n")
    plain.stdin.flush()
    return int(plain.stdout.readline())


@contextmanager
def _plain_script(elements: int, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.sandbox.plain_replay"]
    order = {"kernel": KERNEL.model_dump(), "elements": elements, "block": BLOCK, "flush_bytes": FLUSH_BYTES}
    with subprocess.Popen(
        command, text=True, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        yield process
        process.stdin.close()

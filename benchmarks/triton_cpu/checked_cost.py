"""How much slower checked builds are: launches of one kernel on the same memory, plain and checked, by turns."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from benchmarks.triton_cpu.checked_plans import Recorder, prepared
from benchmarks.triton_cpu.row_kernels import layer_norm, softmax
from kernelsmith.devices.cpu import CpuDevice
from kernelsmith.evaluate.clock import schedule
from kernelsmith.faults import Schedule
from kernelsmith.plan import Launch, PointerArgument
from kernelsmith.sandbox.replay.examine import segment
from kernelsmith.triton_cpu.watch.monitor import Memory

GOAL = 2.5
"""Most that a checked run may take, in plain runs."""
MIN_ROUNDS, MAX_ROUNDS = 5, 200
SEED = 0


@dataclass(frozen=True)
class Cost:
    """What one kernel came to; the ratio is checked over plain."""

    kernel: str
    plain_ms: float
    checked_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    rounds: int
    ok: bool


@triton.jit
def matmul_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    left_tile, right_tile = a + rows[:, None] * k + inner[None, :], b + inner[:, None] * n + columns[None, :]
    for start in range(0, k, BK):
        left = tl.load(left_tile, mask=(rows[:, None] < m) & (inner[None, :] < k - start), other=0.0)
        right = tl.load(right_tile, mask=(inner[:, None] < k - start) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
        left_tile += BK
        right_tile += BK * n
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n)
    matmul_kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64))](a, b, c, m, n, k, BM=64, BN=64, BK=64)
    return c


KERNELS: dict[str, tuple[Callable[..., torch.Tensor], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "softmax 4096x1000": (softmax, lambda: (torch.randn(4096, 1000),)),
    "layer_norm 4096x1024": (layer_norm, lambda: (torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024))),
    "matmul 512x512x512": (matmul, lambda: (torch.randn(512, 512), torch.randn(512, 512))),
}


def measure(kernel: str, recorder: Recorder, seconds: float) -> Cost:
    """Time one kernel for about this long."""
    torch.manual_seed(SEED)
    host, arguments = KERNELS[kernel]
    workspace, _, inputs = prepared(host, arguments(), recorder, plain=True)
    workspace.reset(inputs, poison=0)
    (step,) = (step for step in workspace.plan.steps if isinstance(step, Launch))
    build, memory = CpuDevice().compile_checked(workspace.plan.kernels[0]), Memory(assume_written=False)
    for number, buffer in enumerate(workspace.plan.buffers):
        memory.declare(workspace.address(number, 0), buffer.nbytes, written=buffer.kind == "input")
    slots = workspace.slots(step)
    segments = [segment(workspace, a.view) if isinstance(a, PointerArgument) else None for a in step.arguments]

    def checked() -> None:
        found = build.run(step.grid, slots, segments, memory, tables=(), schedule=Schedule.PARALLEL, seed=SEED)
        assert not found, f"a checked run of {kernel} finds what is not there: {found[0]}"

    calls = {"plain": workspace.run, "checked": checked}
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    deadline = time.monotonic() + seconds
    for count, order in enumerate(schedule.rounds(list(calls), MAX_ROUNDS, SEED)):
        if count >= MIN_ROUNDS and time.monotonic() > deadline:
            break
        for name in order:
            calls[name]()
            begin = time.perf_counter_ns()
            calls[name]()
            times[name].append((time.perf_counter_ns() - begin) / 1e6)
    ratio = schedule.paired_ratio(times["checked"], times["plain"], SEED)
    medians = {name: schedule.median_interval(samples, SEED).value for name, samples in times.items()}
    return Cost(
        kernel=kernel,
        plain_ms=medians["plain"],
        checked_ms=medians["checked"],
        ratio=ratio.value,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        rounds=len(times["plain"]),
        ok=ratio.value <= GOAL,
    )

"""Which kernels a call runs on a device, and how long each took: by the profiler that torch has for the device (CUPTI
on NVIDIA, roctracer on AMD, Intel's and Cambricon's through the same door), or by Huawei's own.

Invariant: want of a profiler, or of the permission to use it, is a note and no error; times are events' then. A second
opinion on those, for trusted processes only. Not run on a device yet. Called by `benchmarks.first_day` and
`benchmarks.gpu`.
"""

from __future__ import annotations

import csv
import importlib
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PERMISSION = (
    "none was recorded; drivers may keep counters from users (NVIDIA: NVreg_RestrictProfilingToAdminUsers=0, or root)"
)
_NPU_CSV = "*/ASCEND_PROFILER_OUTPUT/kernel_details.csv"
"""Where torch_npu.profiler leaves one line for each kernel, with the columns `Name` and `Duration(us)`."""


@dataclass(frozen=True)
class KernelTime:
    """All runs of one kernel during a call."""

    name: str
    runs: int
    nanoseconds: int
    """Of all of them together."""


@dataclass(frozen=True)
class Profile:
    """The kernels of a call, the longest first; `note` says why there is none."""

    kernels: tuple[KernelTime, ...]
    note: str = ""

    @property
    def nanoseconds(self) -> int:
        return sum(kernel.nanoseconds for kernel in self.kernels)


def profile(kind: str, call: Callable[[], object]) -> Profile:
    """Profile one call on torch's device `kind`, which must wait for its own end. Raises what the call raises."""
    call()  # what is done once is no part of it, and what the call raises is not the profiler's doing
    way = _by_huawei if kind == "npu" else _by_torch
    try:
        runs = way(kind, call)
    except (RuntimeError, ImportError, AttributeError, OSError, KeyError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        return Profile((), f"no profile: {type(error).__name__}: {first}")
    kernels: dict[str, KernelTime] = {}
    for name, nanoseconds in runs:
        sofar = kernels.get(name, KernelTime(name, 0, 0))
        kernels[name] = KernelTime(name, sofar.runs + 1, sofar.nanoseconds + nanoseconds)
    longest = sorted(kernels.values(), key=lambda kernel: -kernel.nanoseconds)
    return Profile(tuple(longest), "" if longest else f"no profile: {PERMISSION}")


def _by_torch(kind: str, call: Callable[[], object]) -> list[tuple[str, int]]:
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, supported_activities
    from torch.profiler import profile as profiling

    activity = getattr(ProfilerActivity, kind.upper(), None) or ProfilerActivity.PrivateUse1
    if activity not in supported_activities():  # type: ignore[no-untyped-call]
        raise ValueError(f"torch's profiler here knows no {kind}")
    with profiling(activities=[activity]) as seen:
        call()
    events: Iterable[Any] = seen.events() or ()
    return [
        (event.name, round(event.time_range.elapsed_us() * 1e3))
        for event in events
        if event.device_type is not DeviceType.CPU
    ]


def _by_huawei(kind: str, call: Callable[[], object]) -> list[tuple[str, int]]:
    npu = importlib.import_module("torch_npu.profiler")
    with tempfile.TemporaryDirectory() as folder:
        handler = npu.tensorboard_trace_handler(folder)
        with npu.profile(activities=[npu.ProfilerActivity.NPU], on_trace_ready=handler) as seen:
            call()
            seen.step()
        return kernel_details(Path(folder))


def kernel_details(folder: Path) -> list[tuple[str, int]]:
    """Name and nanoseconds of each kernel that torch_npu.profiler recorded below a folder. Raises OSError where it left
    nothing, KeyError and ValueError for other columns."""
    (path,) = folder.glob(_NPU_CSV)
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [(row["Name"], round(float(row["Duration(us)"]) * 1e3)) for row in csv.DictReader(file)]

"""Runs a checked kernel and tells what it found.

Owns the context that generated code and cpp/monitor.cpp share, and the search for results that depend on masked-off
lanes: the launch is done again on the same memory with other values in those lanes, and what differs depends on them.
Called by the Triton driver and by the plan launcher.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelsmith.errors import UsageError
from kernelsmith.faults import Fault, FaultKind, Schedule
from kernelsmith.triton_cpu.emit.sites import Site, Watch
from kernelsmith.triton_cpu.run import pool
from kernelsmith.triton_cpu.run.launch import Grid, Kernel
from kernelsmith.triton_cpu.watch.patterns import DISTURBED, patterns
from kernelsmith.triton_cpu.watch.shadows import Memory, Segment, Shadow, overlapping, smallest_granule, valid_entries

__all__ = ["Memory", "Segment", "run_checked"]

_CPP = Path(__file__).parents[1] / "cpp"
_SCHEDULES = {schedule: number for number, schedule in enumerate(Schedule)}  # enum Schedule of cpp/monitor.cpp
# The order of KsFault in cpp/checked_abi.h.
_KINDS = (
    FaultKind.OUT_OF_BOUNDS,
    FaultKind.UNWRITTEN,
    FaultKind.RACE,
    FaultKind.CONFLICT,
    FaultKind.OFFSET_WRAP,
    FaultKind.DIVISION_BY_ZERO,
    FaultKind.ASSERTION,
    FaultKind.DEADLOCK,
)
_ACCESSES = ("load", "load", "store", "atomic")
_RACES = ("reads what the other wrote", "overwrites what the other wrote", "overwrites what the other read")
_ROOM = 256
_MANY = 2**32 - 1  # KS_MANY: several program instances


class _Segment(ctypes.Structure):
    _fields_ = (
        ("lo", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("valid", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("reader", ctypes.c_void_p),
        ("stamp", ctypes.c_void_p),
        ("owner_clock", ctypes.c_void_p),
        ("reader_clock", ctypes.c_void_p),
        ("shift", ctypes.c_int32),
        ("kept_back", ctypes.c_int32),
    )


class _Context(ctypes.Structure):
    _fields_ = (
        ("segments", ctypes.c_void_p),
        ("patterns", ctypes.c_void_p),
        ("masked", ctypes.c_void_p),
        ("base", ctypes.c_uint32),
        ("stop", ctypes.c_int32),
        ("monitor", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * 8),
    )


class _Report(ctypes.Structure):
    _fields_ = (
        ("fault", ctypes.c_int32),
        ("site", ctypes.c_int32),
        ("segment", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("program", ctypes.c_uint32),
        ("other", ctypes.c_uint32),
        ("lane", ctypes.c_int64),
        ("a", ctypes.c_int64),
        ("b", ctypes.c_int64),
        ("count", ctypes.c_uint64),
    )


def library_path() -> Path:
    """The compiled monitor; built where that was not done before."""
    source = "".join((_CPP / name).read_text() for name in ("types.h", "checked_abi.h", "monitor.cpp"))
    return pool.built_library("monitor", source)


@functools.cache
def load() -> ctypes.CDLL:
    """The compiled monitor; loading it starts no thread."""
    library = ctypes.CDLL(str(library_path()))
    library.kernelsmith_monitor_start.argtypes = [ctypes.POINTER(_Context), *[ctypes.c_int32] * 3]
    library.kernelsmith_monitor_run.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Context), ctypes.c_uint64]
    library.kernelsmith_monitor_end.argtypes = [ctypes.POINTER(_Context), ctypes.POINTER(_Report), ctypes.c_int32]
    return library


@dataclass(frozen=True)
class _Launch:
    """One launch with all that its runs share."""

    kernel: Kernel
    watch: Watch
    grid: Grid
    slots: tuple[int | float, ...]
    segments: tuple[Segment | None, ...]
    memory: Memory
    seed: int

    @property
    def programs(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    def reads_what_it_writes(self) -> bool:
        """Whether another run needs the memory as it was before, where there may have to be one."""
        accesses = self.watch.accesses
        if not accesses.patterned or not self.watch.checked:
            return False
        near = {other for number in accesses.stored if number >= 0 for other in overlapping(self.segments, number)}
        return accesses.stamped or -1 in (*accesses.loaded, *accesses.stored) or bool(near & set(accesses.loaded))

    def written(self) -> Iterator[NDArray[np.uint8]]:
        """The bytes that the kernel may change, each stretch of memory once."""
        stored = self.watch.accesses.stored
        numbers = range(len(self.segments)) if -1 in stored else stored
        seen: set[tuple[int, int]] = set()
        for number in numbers:
            segment = self.segments[number]
            if segment is not None and segment.nbytes and (key := (segment.address, segment.nbytes)) not in seen:
                seen.add(key)
                yield np.ctypeslib.as_array((ctypes.c_uint8 * segment.nbytes).from_address(segment.address))


def run_checked(
    kernel: Kernel,
    grid: Grid,
    slots: Sequence[int | float],
    segments: Sequence[Segment | None],
    memory: Memory,
    *,
    tables: Sequence[Segment] = (),
    schedule: Schedule = Schedule.PARALLEL,
    seed: int = 0,
) -> tuple[Fault, ...]:
    """Runs a grid of a kernel with a `watch` to its end; one `Fault` per kind and place.

    `segments` has an entry per slot: what a pointer may reach, None for a scalar or a null pointer. Accesses at fault
    do not happen, so memory outside of the segments stays as it is. `tables` is what an address that the kernel reads
    from memory may reach beside the arguments; where `memory` assumes what it does not know, it may reach anything.
    `seed` decides `Schedule.SHUFFLED`. Raises
    UsageError for arguments that do not fit the kernel and InfrastructureError where a launch cannot run.
    """
    watch = kernel.watch
    if watch is None:
        raise UsageError(f"kernel {kernel.name} was not compiled as a checked build")
    if len(segments) != len(slots):
        raise UsageError(f"kernel {kernel.name}: {len(segments)} segments for {len(slots)} arguments")
    launch = _Launch(kernel, watch, grid, tuple(slots), (*segments, *tables), memory, seed)
    if launch.programs == 0:
        return ()
    before = [stretch.copy() for stretch in launch.written()] if launch.reads_what_it_writes() else None
    run = _Run(launch, schedule)
    faults = run.faults()
    if not run.stopped:
        faults += _poison(launch, run, before)
    return tuple(faults)


class _Run:
    """One run of a launch. `masked` are the sites whose lanes were masked off."""

    def __init__(
        self, launch: _Launch, schedule: Schedule, patterned: frozenset[int] = frozenset(), pattern: str = "zeros"
    ) -> None:
        self._launch = launch
        self._first = launch.memory.numbers(launch.programs)
        self._keep: list[object] = []
        self.shadows: dict[int, Shadow] = {}
        sites = len(launch.watch.sites)
        masked = np.zeros(sites + 1, np.uint8)
        tables = [patterns(pattern if number in patterned else "zeros") for number in range(sites)]
        self._keep += tables
        addresses = np.array([table.ctypes.data for table in tables] or [0], np.uint64)
        count = len(launch.segments)
        kept_back = schedule is Schedule.DEFERRED
        for number in (*range(count), *range(count)):  # the first round may replace shadows that overlap
            self._prepare(number)
        described = (_Segment * max(1, count))(*(self._segment(number, kept_back) for number in range(count)))
        context = _Context(ctypes.addressof(described), addresses.ctypes.data, masked.ctypes.data, self._first, 0)
        library = load()
        trusting = launch.memory.assume_written
        library.kernelsmith_monitor_start(ctypes.byref(context), count, _SCHEDULES[schedule], trusting)
        reports = (_Report * _ROOM)()
        try:
            request = launch.kernel.request(launch.grid, launch.slots, context=ctypes.addressof(context))
            if schedule is Schedule.PARALLEL:
                (pool.load_waiting() if launch.kernel.waits else pool.load())(request)
            elif library.kernelsmith_monitor_run(request, ctypes.byref(context), launch.seed):
                raise MemoryError("a kernel could not be launched: no memory for its scratch space")
        finally:
            found = library.kernelsmith_monitor_end(ctypes.byref(context), reports, _ROOM)
        self.stopped = bool(context.stop)
        self.masked = [number for number in range(sites) if masked[number]]
        self.reports = reports[: min(found, _ROOM)]

    def _prepare(self, number: int) -> None:
        """Make the shadow of an argument, where it needs one."""
        launch = self._launch
        segment = launch.segments[number]
        if segment is None or not launch.watch.checked:
            return
        if self._among(number, launch.watch.accesses.stored) or not launch.memory.surely_written(
            segment.address, segment.nbytes
        ):
            known = [other for other in launch.segments if other is not None]
            granule = smallest_granule(known, segment)
            self.shadows[number] = launch.memory.shadow(segment.address, segment.nbytes, granule)

    def _among(self, number: int, arguments: tuple[int, ...]) -> bool:
        """Whether the memory of an argument is among that of some arguments."""
        return -1 in arguments or bool(set(overlapping(self._launch.segments, number)) & set(arguments))

    def _segment(self, number: int, kept_back: bool) -> _Segment:
        """What the generated code is told of an argument. Shadows exist where two program instances could meet."""
        launch = self._launch
        segment = launch.segments[number]
        if segment is None or not launch.watch.checked:
            return _Segment()
        accesses = launch.watch.accesses
        shadow = self.shadows.get(number)
        granule = segment.itemsize if shadow is None else shadow.granule
        result = _Segment(segment.address, segment.nbytes)
        result.shift = granule.bit_length() - 1
        result.kept_back = kept_back
        valid = valid_entries(segment, granule)
        if valid is not None:
            self._keep.append(valid)
            result.valid = valid.ctypes.data
        if shadow is None:
            return result
        start = shadow.offset(segment.address)
        result.owner = shadow.owner[start:].ctypes.data
        if self._among(number, accesses.stored) and self._among(number, accesses.loaded):
            result.reader = shadow.array("reader", np.uint32)[start:].ctypes.data
        if accesses.stamped:
            result.stamp = shadow.array("stamp", np.uint32)[start:].ctypes.data
        if accesses.synchronises:
            result.owner_clock = shadow.array("owner_clock", np.uint32)[start:].ctypes.data
            result.reader_clock = shadow.array("reader_clock", np.uint32)[start:].ctypes.data
        return result

    def faults(self) -> list[Fault]:
        found = [self._fault(report) for report in self.reports]
        return sorted(found, key=lambda fault: fault.kind is not FaultKind.OFFSET_WRAP)  # a cause before what it causes

    def _fault(self, report: _Report) -> Fault:
        watch = self._launch.watch
        kind = _KINDS[report.fault]
        site = watch.sites[report.site]
        number = int(report.segment)
        segment = self._launch.segments[number] if number >= 0 else None
        place = None
        if segment is not None:
            element = (int(report.a) - segment.address) // segment.itemsize
            place = segment.index(element) if kind is not FaultKind.OUT_OF_BOUNDS else None
            place = place or (element,)
        return Fault(
            kind=kind,
            kernel=self._launch.kernel.name,
            location=site.location,
            expression=f"{site.value} = {site.operation}".removeprefix(" = "),
            program=self.program(int(report.program)),
            lane=_unflatten(int(report.lane), site.shape),
            tensor=self.name(number) if number >= 0 else None,
            index=place,
            other=self.program(int(report.other)) if kind is FaultKind.RACE and report.other != _MANY else None,
            detail=self._detail(kind, report, segment, site),
            count=int(report.count),
        )

    def _detail(self, kind: FaultKind, report: _Report, segment: Segment | None, site: Site) -> str:
        if kind is FaultKind.OUT_OF_BOUNDS and site.operation == "tt.gather":
            return f"index {int(report.a)} of an axis of {int(report.b)}"
        if kind is FaultKind.OUT_OF_BOUNDS:
            access = _ACCESSES[report.b]
            if segment is None:
                return f"{access} at {int(report.a):#x}, which belongs to none of the tensors"
            return f"{access} {_miss(int(report.a), segment)}"
        if kind is FaultKind.RACE:
            return _RACES[report.b]
        if kind is FaultKind.OFFSET_WRAP:
            return f"the offset is {int(report.a)} and came out as {int(report.b)}"
        return site.message if kind is FaultKind.ASSERTION else ""

    def program(self, number: int) -> tuple[int, int, int]:
        width, height, _ = self._launch.grid
        place = number - self._first
        return place % width, place // width % height, place // (width * height)

    def name(self, number: int) -> str:
        segment = self._launch.segments[number]
        names = self._launch.watch.names
        return (segment.name if segment is not None else "") or (names[number] if number < len(names) else "memory")

    def owner(self, address: int) -> tuple[int, tuple[int, ...] | None, tuple[int, int, int]] | None:
        """The argument, index and program instance of an element that this run wrote."""
        for number, segment in enumerate(self._launch.segments):
            if segment is None or not segment.address <= address < segment.address + segment.nbytes:
                continue
            shadow = self.shadows.get(number)
            writer = int(shadow.owner[shadow.offset(address)]) if shadow is not None else 0
            if writer >= self._first:
                return number, segment.index((address - segment.address) // segment.itemsize), self.program(writer)
        return None


def _poison(launch: _Launch, run: _Run, before: list[NDArray[np.uint8]] | None) -> list[Fault]:
    """The sites whose masked-off lanes the result depends on. Lanes of an access that was at fault count as masked off.

    Both runs that are compared go one program after the other, since sums of atomics depend on their order. `before` is
    what the memory held, if the kernel reads what it writes; else all runs begin with what the launch left.
    """
    at_fault = {report.site for report in run.reports}
    sites = [site for site in run.masked if site not in at_fault]
    if not sites:
        return []
    stretches = list(launch.written())
    result = [stretch.copy() for stretch in stretches]

    def outcome(patterned: frozenset[int], pattern: str) -> tuple[_Run, list[NDArray[np.uint8]]]:
        for stretch, bytes_before in zip(stretches, before if before is not None else result, strict=True):
            stretch[:] = bytes_before
        done = _Run(launch, Schedule.SHUFFLED, patterned, pattern)
        return done, [stretch.copy() for stretch in stretches]

    _, plain = outcome(frozenset(), "zeros")
    found: dict[int, Fault] = {}
    for pattern in DISTURBED:
        rest = frozenset(site for site in sites if site not in found)
        if not rest or _same(plain, outcome(rest, pattern)[1]):
            continue
        for site in sorted(rest):
            changed, bytes_after = outcome(frozenset((site,)), pattern)
            fault = _dependence(launch, changed, stretches, plain, bytes_after, site)
            if fault is not None:
                found[site] = fault
    for stretch, bytes_then in zip(stretches, result, strict=True):
        stretch[:] = bytes_then
    return [found[site] for site in sorted(found)]


def _same(a: list[NDArray[np.uint8]], b: list[NDArray[np.uint8]]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _dependence(
    launch: _Launch,
    run: _Run,
    stretches: list[NDArray[np.uint8]],
    plain: list[NDArray[np.uint8]],
    patterned: list[NDArray[np.uint8]],
    number: int,
) -> Fault | None:
    """The first element that came out differently."""
    site = launch.watch.sites[number]
    for stretch, a, b in zip(stretches, plain, patterned, strict=True):
        places = np.flatnonzero(a != b)
        if not len(places):
            continue
        found = run.owner(stretch.ctypes.data + int(places[0]))
        tensor, index, program = found if found is not None else (None, None, (0, 0, 0))
        what = "a division by zero" if site.operation.startswith("arith.") else "a masked-off lane"
        return Fault(
            kind=FaultKind.POISON,
            kernel=launch.kernel.name,
            location=site.location,
            expression=f"{site.value} = {site.operation}",
            program=program,
            tensor=None if tensor is None else run.name(tensor),
            index=index,
            detail=f"the element depends on what {what} yields",
        )
    return None


def _miss(address: int, segment: Segment) -> str:
    if address < segment.address:
        return f"{segment.address - address} bytes before the first element"
    over = address + segment.itemsize - (segment.address + segment.nbytes)
    if over > 0:
        return f"{over} bytes past the last element"
    return "inside the tensor's memory, between its elements"


def _unflatten(lane: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if lane < 0 or not shape:
        return None
    return tuple(int(n) for n in np.unravel_index(lane % int(np.prod(shape)), shape))

"""Compiled kernels on the thread pool: every instance once, from any thread, in any process, with arguments intact."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kernelsmith.triton_cpu as cpu
from kernelsmith.errors import UsageError
from kernelsmith.triton_cpu import isa
from kernelsmith.triton_cpu.run import build, launch, pool

HEAD = (
    'extern "C" void kernelsmith_run(long lo, long hi, const int *grid, const unsigned long long *args, char *scratch)'
)
COUNT = f"{HEAD} {{ for (long p = lo; p < hi; p++) __atomic_fetch_add((int *)args[0] + p, (int)args[1], 5); }}"


def kernel(source: str, arguments: tuple[str, ...], scratch_bytes: int = 0) -> launch.Kernel:
    code = build.compile_shared(source, isa.host_isa(), fp_fusion=True)
    return launch.Binary("stand_in", arguments, scratch_bytes, code).load()


@pytest.fixture(scope="module")
def count() -> launch.Kernel:
    return kernel(COUNT, ("*i32", "i32"))


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    cpu.set_num_threads(4)
    yield
    cpu.set_num_threads(None)


def all_ran_once(count: launch.Kernel, programs: int) -> bool:
    hits = np.zeros(programs, dtype=np.int32)
    count.launch((programs, 1, 1), [hits.ctypes.data, 1])
    return bool((hits == 1).all())


@pytest.mark.parametrize("programs", [1, 2, 3, 4, 5, 31, 32, 33, 1000, 65537])
def test_every_program_instance_runs_once(count: launch.Kernel, programs: int) -> None:
    assert all_ran_once(count, programs)


@pytest.mark.parametrize("grid", [(0, 1, 1), (4, 0, 1), (4, 1, 0), (0, 0, 0)])
def test_a_grid_with_a_zero_runs_nothing(count: launch.Kernel, grid: launch.Grid) -> None:
    count.launch(grid, [0, 1])


def test_grid_is_linear_with_x_fastest_and_passed_on() -> None:
    where = kernel(
        f"{HEAD} {{ for (long p = lo; p < hi; p++)"
        "((long *)args[0])[p] = p % grid[0] + 100 * (p / grid[0] % grid[1]) + 10000 * (p / grid[0] / grid[1]); }",
        ("*i64",),
    )
    seen = np.zeros((4, 3, 5), dtype=np.int64)
    where.launch((5, 3, 4), [seen.ctypes.data])
    z, y, x = np.indices(seen.shape)
    assert (seen == x + 100 * y + 10000 * z).all()


def test_program_instances_run_one_by_one_in_any_order() -> None:
    order = kernel(
        f"{HEAD} {{ long *args0 = (long *)args[0]; for (long p = lo; p < hi; p++) args0[1 + args0[0]++] = p; }}",
        ("*i64",),
    )
    seen = np.zeros(31, dtype=np.int64)
    one = order.bind_each((5, 3, 2), [seen.ctypes.data])
    for number in (7, 29, 0):
        one(number)
    assert seen[:4].tolist() == [3, 7, 29, 0]
    one(30)
    one(-1)
    order.bind_each((5, 0, 2), [0])(0)
    assert seen[0] == 3


@pytest.mark.parametrize("grid", [(-1, 1, 1), (1, 2**31, 1), (1, 1.5, 1), ("2", 1, 1)])
def test_a_grid_out_of_range_is_refused(count: launch.Kernel, grid: launch.Grid) -> None:
    with pytest.raises(UsageError, match="grid"):
        count.launch(grid, [0, 1])


def test_a_grid_beyond_64_bits_is_an_error(count: launch.Kernel) -> None:
    with pytest.raises(ValueError, match="grid"):
        count.launch((pool.MAX_GRID, pool.MAX_GRID, pool.MAX_GRID), [0, 1])


def test_wrong_number_of_arguments_names_them(count: launch.Kernel) -> None:
    with pytest.raises(UsageError, match=r"takes 2 arguments \(\*i32, i32\), got 1"):
        count.launch((1, 1, 1), [0])


def test_each_thread_has_aligned_scratch_of_its_own() -> None:
    size = 1 << 20
    scratch = kernel(
        f"{HEAD} {{ long *s = (long *)scratch; for (long p = lo; p < hi; p++) {{"
        f"for (long i = 0; i < {size} / 8; i++) s[i] = p;"
        f"long bad = (long)scratch % 64; for (long i = 0; i < {size} / 8; i++) bad += s[i] != p;"
        "((long *)args[0])[p] = bad; } }",
        ("*i64",),
        scratch_bytes=size,
    )
    bad = np.ones(64, dtype=np.int64)
    scratch.launch((64, 1, 1), [bad.ctypes.data])
    assert (bad == 0).all()


def test_scratch_beyond_memory_is_an_error() -> None:
    huge = kernel(COUNT, ("*i32", "i32"), scratch_bytes=1 << 60)
    hits = np.zeros(8, dtype=np.int32)
    with pytest.raises(MemoryError, match="scratch"):
        huge.launch((8, 1, 1), [hits.ctypes.data, 1])


def test_a_bound_launch_can_be_repeated(count: launch.Kernel) -> None:
    hits = np.zeros(100, dtype=np.int32)
    again = count.bind((100, 1, 1), [hits.ctypes.data, 3])
    for _ in range(5):
        again()
    assert (hits == 15).all()


def test_workers_leave_signals_to_the_program_but_take_their_own_faults(count: launch.Kernel) -> None:
    assert all_ran_once(count, 1000)
    status = [path.read_text() for path in Path("/proc/self/task").glob("*/status")]
    blocked = [int(text.split("SigBlk:")[1].split()[0], 16) for text in status]
    assert any(mask >> (signal.SIGINT - 1) & 1 for mask in blocked)
    faults = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    assert not any(mask >> (number - 1) & 1 for mask in blocked for number in faults)


def test_launches_from_several_threads(count: launch.Kernel) -> None:
    failed: list[int] = []

    def many(worker: int) -> None:
        failed.extend(worker for i in range(200) if not all_ran_once(count, 50 + i))

    workers = [threading.Thread(target=many, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failed == []


@pytest.fixture(params=["page is wiped", "process is compared"])
def either_pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The pool as it is, and as it would be on a kernel without MADV_WIPEONFORK."""
    if request.param == "process is compared":
        source = pool._SOURCE.read_text()
        wiped = "wiped_on_fork = madvise(page, sizeof(Pool), MADV_WIPEONFORK) == 0;"
        assert wiped in source
        (tmp_path / "pool.cpp").write_text(source.replace(wiped, "wiped_on_fork = false;"))
        monkeypatch.setattr(pool, "_SOURCE", tmp_path / "pool.cpp")
        monkeypatch.setenv("KERNELSMITH_CACHE_DIR", str(tmp_path))
        function = pool.load.__wrapped__()
        monkeypatch.setattr(pool, "load", lambda: function)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_launches_with_threads_of_its_own(count: launch.Kernel, either_pool: None) -> None:
    """Both generations: the child of a process with a running pool, and that child's child."""
    assert all_ran_once(count, 1000)
    assert len(os.listdir("/proc/self/task")) > 1
    child = os.fork()
    if child == 0:
        alone = len(os.listdir("/proc/self/task")) == 1
        good = alone and all_ran_once(count, 1000) and len(os.listdir("/proc/self/task")) == 4
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if all_ran_once(count, 1000) else 1)
        good = good and os.waitpid(grandchild, 0)[1] == 0
        os._exit(0 if good and all_ran_once(count, 1000) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert all_ran_once(count, 1000)


def test_loading_the_pool_starts_no_thread() -> None:
    program = (
        "import os; from kernelsmith.triton_cpu.run import pool; pool.load(); print(len(os.listdir('/proc/self/task')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_thread_count_limits_the_threads() -> None:
    cpu.set_num_threads(1)
    ids = kernel(f"{HEAD} {{ ((char **)args[0])[lo] = (char *)&lo; }}", ("*i64",))
    seen = np.zeros(1000, dtype=np.int64)
    ids.launch((1000, 1, 1), [seen.ctypes.data])
    assert np.flatnonzero(seen).tolist() == [0], "one thread takes the whole grid in one call"


@pytest.mark.parametrize("value", ["0", "-3", "many", "2.5", "65536"])
def test_a_bad_thread_count_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    cpu.set_num_threads(None)
    monkeypatch.setenv("KERNELSMITH_CPU_THREADS", value)
    with pytest.raises(UsageError, match=f"not '{value}'"):
        cpu.get_num_threads()


def test_thread_count_from_the_environment_and_from_the_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu.set_num_threads(None)
    monkeypatch.setenv("KERNELSMITH_CPU_THREADS", "3")
    assert cpu.get_num_threads() == 3
    cpu.set_num_threads(None)
    monkeypatch.delenv("KERNELSMITH_CPU_THREADS")
    assert 1 <= cpu.get_num_threads() <= len(os.sched_getaffinity(0))


def test_the_pool_is_compiled_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELSMITH_CACHE_DIR", str(tmp_path / "cache"))
    first = pool.library_path()
    stamp = first.stat().st_mtime_ns
    assert first.parent == tmp_path / "cache"
    assert pool.library_path() == first
    assert first.stat().st_mtime_ns == stamp


def test_a_cache_folder_that_others_can_write_to_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("KERNELSMITH_CACHE_DIR", str(shared))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert pool.library_path().parent == tmp_path / f"kernelsmith-{os.getuid()}"
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("*f32", 0x7FFF12345678, 0x7FFF12345678),
        ("i1", True, 1),
        ("i8", -1, 0xFF),
        ("i16", -2, 0xFFFE),
        ("i32", -1, 0xFFFFFFFF),
        ("i32", 0xFFFFFFFE, 0xFFFFFFFE),
        ("i64", -(2**63), 1 << 63),
        ("i64", 2**64 - 1, 2**64 - 1),
        ("f32", 1.5, 0x3FC00000),
        ("f32", 1e300, 0x7F800000),
        ("f64", -2.0, 0xC000000000000000),
        ("f16", 1.0, 0x3C00),
        ("f16", -1e6, 0xFC00),
        ("bf16", 1.0, 0x3F80),
        ("bf16", 1.00390625, 0x3F80),
        ("bf16", 1.01171875, 0x3F82),
        ("bf16", float("inf"), 0x7F80),
        ("bf16", 1e300, 0x7F80),
    ],
)
def test_slots_hold_the_bits_of_their_type(kind: str, value: int | float, expected: int) -> None:
    assert int.from_bytes(launch.pack_slot(kind, value), "little") == expected


def test_a_nan_stays_one_in_every_float_type() -> None:
    for kind, exponent in (("bf16", 0x7F80), ("f16", 0x7C00), ("f32", 0x7F800000), ("f64", 0x7FF << 52)):
        bits = int.from_bytes(launch.pack_slot(kind, float("nan")), "little")
        assert bits & exponent == exponent
        assert bits & (exponent & -exponent) - 1, "no payload: that would be an infinity"


def test_a_library_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    loaded = pool.load_library(build.compile_shared(COUNT, isa.host_isa(), fp_fusion=True))
    assert isinstance(loaded, ctypes.CDLL)
    assert list(tmp_path.iterdir()) == []

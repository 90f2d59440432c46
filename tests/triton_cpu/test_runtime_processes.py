"""Launches beside each other: threads, forked and fresh processes, OpenMP, checked builds, and a GPU's own driver."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.backends import backends

import kernelsmith.triton_cpu as cpu
from kernelsmith.faults import CheckedLaunchError
from kernelsmith.triton_cpu.driver import CPUDriver
from kernelsmith.triton_cpu.run import pool
from kernelsmith.triton_cpu.watch import watched

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
SIZE = 5000
PATIENCE_S = 100  # a hang is ended, on a machine however slow


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton-processes"))
    cpu.set_num_threads(3)
    yield
    cpu.set_num_threads(None)


@triton.jit
def double(x, out, n, B: tl.constexpr, PAST: tl.constexpr = 0):
    index = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + index, tl.load(x + index + PAST, mask=index < n) * 2, mask=index < n)


def doubles() -> bool:
    """Without random numbers: torch's generator has a lock that a fork may find taken."""
    x, out = torch.arange(float(SIZE)), torch.zeros(SIZE)
    double[(triton.cdiv(SIZE, 64),)](x, out, SIZE, B=64)
    return bool((out.numpy() == 2 * x.numpy()).all())


def faults() -> int:
    """What a checked build finds in a launch that reads one element too many."""
    x = torch.arange(float(SIZE))
    try:
        double[(triton.cdiv(SIZE, 64),)](x, torch.zeros(SIZE), SIZE, B=64, PAST=1)
    except CheckedLaunchError as error:
        return len(error.faults)
    return 0


def forked(check: Callable[[], bool]) -> int:
    """Starts a child that ends with 0 where `check` holds."""
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_S)
        good = False
        try:
            good = check()
        finally:
            os._exit(0 if good else 1)
    return child


def well(child: int) -> bool:
    return os.waitpid(child, 0)[1] == 0


class Beside:
    """Runs `work` again and again in threads while the block is open; `failed` counts what did not hold."""

    def __init__(self, work: Callable[[], bool], count: int = 1) -> None:
        self.done = self.failed = 0
        self._work, self._open = work, True
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]

    def _run(self) -> None:
        while self._open:
            self.failed += not self._work()
            self.done += 1

    def __enter__(self) -> Beside:
        for thread in self._threads:
            thread.start()
        while self.done < len(self._threads):
            time.sleep(0.001)
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        for thread in self._threads:
            thread.join()


def test_forks_while_another_thread_launches() -> None:
    assert doubles()
    with Beside(doubles) as beside:
        assert all(well(forked(doubles)) for _ in range(8))
    assert beside.failed == 0


def multiplies() -> bool:
    """Regions of torch's own OpenMP threads."""
    a = torch.ones(200, 200)
    return bool((torch.relu(a @ a) + torch.ones(1 << 17).sum() == 200 + (1 << 17)).all())


def test_launches_beside_torchs_own_threads_and_forks_after_them() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with Beside(multiplies) as beside:
            assert all(doubles() for _ in range(20))
            assert well(forked(doubles))
        assert beside.failed == 0
    finally:
        torch.set_num_threads(before)


def test_several_threads_compile_and_launch_the_same_kernel_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    double.device_caches.clear()
    with Beside(doubles, count=3) as beside:
        pass
    assert beside.failed == 0


def test_several_processes_compile_the_same_kernel_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    double.device_caches.clear()
    assert all(map(well, [forked(doubles) for _ in range(3)]))
    names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert names.count("double.so") == 1
    assert not [name for name in names if "tmp" in name]


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """Each item is computed by a kernel."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        out = torch.zeros(64)
        double[(1,)](torch.full((64,), float(index)), out, 64, B=64)
        return out


def test_workers_of_a_data_loader() -> None:
    assert doubles()
    loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2, timeout=PATIENCE_S)
    assert [row[0].item() for batch in loader for row in batch] == [0, 2, 4, 6, 8, 10]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KERNELSMITH_CPU_CHECKED", "1")
    double.device_caches.clear()
    yield
    double.device_caches.clear()


@triton.jit
def double_into(x, out, first, n, B: tl.constexpr):
    index = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + first + index, tl.load(x + index, mask=index < n) * 2, mask=index < n)


def test_checked_launches_that_write_parts_of_one_tensor_leave_each_other_alone(checked: None) -> None:
    """The search for masked-off values sets all of the tensor back, so no other launch may be under way then."""
    out, rounds = torch.zeros(3 * SIZE), itertools.count()

    def fill(part: int) -> bool:
        x, own = torch.full((SIZE,), float(next(rounds))), out[part * SIZE : (part + 1) * SIZE]
        double_into[(triton.cdiv(SIZE, 64),)](x, out, part * SIZE, SIZE, B=64)
        time.sleep(0.005)  # the others go on meanwhile
        return bool((own.numpy() == 2 * x.numpy()).all())

    with Beside(lambda: fill(1)) as one, Beside(lambda: fill(2)) as other:
        assert all(fill(0) for _ in range(5))
    assert (one.failed, other.failed) == (0, 0)


def test_checked_launches_from_several_threads(checked: None) -> None:
    """Each finds its own fault and no other's: no race between launches, no memory that nobody wrote."""
    with Beside(doubles, count=2) as honest, Beside(lambda: faults() == 1) as faulty:
        for _ in range(3):
            assert doubles()
            assert faults() == 1
    assert (honest.failed, faulty.failed) == (0, 0)


def test_checked_launches_in_a_child_forked_during_one(checked: None) -> None:
    assert doubles()
    assert faults() == 1
    with watched._turn:
        assert well(forked(lambda: doubles() and faults() == 1))
    with Beside(doubles) as beside:
        assert all(well(forked(lambda: doubles() and faults() == 1)) for _ in range(3))
    assert beside.failed == 0


def test_beside_a_gpu_tritons_own_choice_stands_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `import triton` would choose on a machine with a GPU; 3.6 knows no variable, but `set_active` works there."""
    from triton.runtime.driver import _create_driver, driver

    gpu = backends["nvidia"].driver
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(gpu, "__init__", lambda self: None)
    monkeypatch.delenv("TRITON_DEFAULT_BACKEND", raising=False)
    assert type(_create_driver()) is gpu
    if not triton.__version__.startswith("3.6."):
        monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "cpu")
        assert type(_create_driver()) is CPUDriver
        monkeypatch.delenv("TRITON_DEFAULT_BACKEND")
    monkeypatch.setattr(driver, "_active", driver._active)
    driver.set_active(_create_driver())
    driver.set_active(CPUDriver())
    assert doubles()


def seconds_between_launches(spin: float) -> float:
    """CPU time of this process while launches are further apart than its threads spin."""
    pool.set_spin(spin)
    begin = time.process_time()
    for _ in range(10):
        assert doubles()
        time.sleep(0.02)
    return time.process_time() - begin


def test_threads_that_may_not_spin_cost_nothing_between_launches() -> None:
    assert doubles()
    try:
        assert seconds_between_launches(0.0) < seconds_between_launches(0.02) / 2
    finally:
        pool.set_spin(pool.SPIN_SECONDS)

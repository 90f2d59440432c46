"""How many threads a machine or a container allows, from the files in which Linux says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kernelsmith.triton_cpu as cpu
from kernelsmith.triton_cpu.run import cores


def machine(folder: Path, groups: str, mounts: list[tuple[str, str, str]], limits: dict[str, str]) -> Path:
    """A /proc/self with these memberships and mounts (root, folder, system), beside the files of the groups."""
    proc = folder / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(groups)
    lines = (f"31 23 0:2 {root} {folder / place} rw - {system}\n" for root, place, system in mounts)
    (proc / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/root rw\n" + "".join(lines))
    for place, text in limits.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    return proc


V2 = ("/", "v2", "cgroup2 cgroup2 rw")
V1 = ("/", "v1/cpu", "cgroup cgroup rw,cpu,cpuacct")


def v1(folder: str, quota: int) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("groups", "mounts", "limits", "expected"),
    [
        pytest.param("0::/\n", [V2], {}, None, id="v2 root, which has no limit"),
        pytest.param("0::/a\n", [V2], {"v2/a/cpu.max": "max 100000\n"}, None, id="v2 max"),
        pytest.param("0::/a\n", [V2], {"v2/a/cpu.max": "250000 100000\n"}, 2.5, id="v2"),
        pytest.param(
            "0::/a/b\n", [V2], {"v2/a/cpu.max": "50000 20000\n", "v2/a/b/cpu.max": "8 1\n"}, 2.5, id="v2 outer"
        ),
        pytest.param("0::/\n", [V2], {"v2/cpu.max": "100000 100000\n"}, 1.0, id="v2 in a namespace of its own"),
        pytest.param("0::/../x\n", [V2], {"v2/cpu.max": "3 1\n"}, 3.0, id="v2 outside of the namespace"),
        pytest.param("4:cpu,cpuacct:/a\n", [V1], v1("v1/cpu/a", 150000), 1.5, id="v1"),
        pytest.param("4:cpu:/a\n", [V1], v1("v1/cpu/a", -1), None, id="v1 without a limit"),
        pytest.param(
            "4:cpu:/docker/x\n0::/\n",
            [("/docker/x", "v1/cpu", "cgroup cgroup rw,cpu"), V2],
            v1("v1/cpu", 300000),
            3.0,
            id="v1 mounted from a container's group on",
        ),
        pytest.param("5:cpuset:/a\n", [V1], v1("v1/cpu/a", 100000), None, id="another controller's group"),
        pytest.param("", [], {}, None, id="no groups"),
    ],
)
def test_the_least_quota_of_all_groups_counts(
    tmp_path: Path, groups: str, mounts: list[tuple[str, str, str]], limits: dict[str, str], expected: float | None
) -> None:
    assert cores.cpu_quota(machine(tmp_path, groups, mounts, limits)) == expected


def test_a_machine_without_proc_has_no_quota(tmp_path: Path) -> None:
    assert cores.cpu_quota(tmp_path / "absent") is None


@pytest.mark.parametrize(("quota", "threads"), [("150000", 1), ("30000", 1), ("200000", 2), ("9900000", 8)])
def test_threads_by_default_fit_into_the_quota_and_the_mask(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, threads: int
) -> None:
    proc = machine(tmp_path, "0::/a\n", [V2], {"v2/a/cpu.max": f"{quota} 100000\n"})
    monkeypatch.setattr(cores, "_PROC", proc)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("KERNELSMITH_CPU_THREADS", raising=False)
    cpu.set_num_threads(None)
    try:
        assert cpu.get_num_threads() == threads
    finally:
        cpu.set_num_threads(None)


@pytest.mark.parametrize(("load", "crowding"), [(0.0, 1.0), (4.0, 1.0), (12.0, 3.0)])
def test_a_machine_is_crowded_where_more_want_to_run_than_can(
    monkeypatch: pytest.MonkeyPatch, load: float, crowding: float
) -> None:
    monkeypatch.setattr(cores, "usable_cores", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert cores.crowding() == crowding

"""Memory of the machine and of the control groups around us, in both of their versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.sandbox.machine import free_bytes, total_bytes

GIB = 1 << 30
MEMINFO = f"MemTotal: {8 << 20} kB\nMemFree: 1 kB\nMemAvailable: {5 << 20} kB\n"
V2 = {"memory.max": f"{4 * GIB}", "memory.current": f"{3 * GIB}", "memory.stat": f"anon 7\ninactive_file {GIB}\n"}
V1 = {
    "memory.limit_in_bytes": f"{4 * GIB}",
    "memory.usage_in_bytes": f"{3 * GIB}",
    "memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}\n",
}
FULL = {**V2, "memory.current": f"{5 * GIB}"}


def proc(folder: Path, kind: str, files: dict[str, str]) -> Path:
    """A /proc whose process is in a group `a` of one hierarchy, with these files."""
    (folder / "self").mkdir()
    (folder / "meminfo").write_text(MEMINFO)
    (folder / "self" / "cgroup").write_text("0::/a\n" if kind == "cgroup2" else "4:memory:/a\n")
    options = "rw" if kind == "cgroup2" else "rw,memory"
    (folder / "self" / "mountinfo").write_text(f"30 22 0:9 / {folder}/groups rw - {kind} cgroup {options}\n")
    (folder / "groups" / "a").mkdir(parents=True)
    for name, text in files.items():
        (folder / "groups" / "a" / name).write_text(text + "\n")
    return folder


@pytest.mark.parametrize(
    ("kind", "files", "total", "free"),
    [
        pytest.param("cgroup2", V2, 4, 2, id="v2"),
        pytest.param("cgroup2", {**V2, "memory.max": "max"}, 8, 5, id="v2 without a limit"),
        pytest.param("cgroup2", FULL, 4, 0, id="v2 over its limit"),
        pytest.param("cgroup", V1, 4, 2, id="v1"),
        pytest.param("cgroup", {**V1, "memory.limit_in_bytes": str(2**63 - 4096)}, 8, 5, id="v1 without a limit"),
        pytest.param("cgroup2", {}, 8, 5, id="no memory controller"),
    ],
)
def test_a_limit_is_a_smaller_machine(tmp_path, kind, files, total, free):
    machine = proc(tmp_path, kind, files)
    assert (total_bytes(machine), free_bytes(machine)) == (total * GIB, free * GIB)


def test_here_there_is_memory():
    assert 0 < free_bytes() <= total_bytes()

"""What is seen of a process tree from outside: nothing that cannot be seen is taken for nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelsmith.sandbox import usage

LOOKS: dict[str, Callable[[], object]] = {
    "descendants": lambda: usage.descendants(os.getpid()),
    "tasks": lambda: usage.tasks([os.getpid()]),
    "mapped": lambda: usage.mapped([os.getpid()]),
    "held": lambda: usage.held([os.getpid()], 0, 1 << 40),
    "files": lambda: usage.files_below("/", 1 << 40, 1 << 20),
}


@pytest.mark.parametrize("name", LOOKS)
def test_who_cannot_look_says_so(name: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            LOOKS[name]()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_that_is_gone_uses_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert usage.descendants(gone.pid) == [] and not usage.alive(gone.pid)
    assert (usage.tasks([gone.pid]), usage.mapped([gone.pid])) == (0, usage.Mapped(0, 0))
    assert usage.held([gone.pid], 0, 1 << 40) == usage.Held(0, 0, 0)


def test_files_below_names_too_long_to_be_opened_are_too_many(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(8192))
    assert usage.files_below(str(tmp_path), 1 << 20, 100) == 8192
    back = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(20):
            os.mkdir("n" * 250)
            os.chdir("n" * 250)
    finally:
        os.chdir(back)
    assert usage.files_below(str(tmp_path), 1 << 20, 100) is None
    usage.remove_tree(str(tmp_path))
    assert not tmp_path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_files_in_a_folder_that_hides_them_are_too_many() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        assert seen_by_another_user(folder)
        Path(folder, "hidden").mkdir(mode=0o300)
        assert not seen_by_another_user(folder)


def seen_by_another_user(folder: str) -> bool:
    if (pid := os.fork()) == 0:
        os.setresuid(1234, 1234, 1234)
        os._exit(usage.files_below(folder, 1 << 20, 100) is None)
    return os.waitpid(pid, 0)[1] == 0

"""Toolchains: made whole or not at all, recorded for the user, found by what is pinned and for which Python."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from kernelsmith import toolchains
from kernelsmith.errors import KernelsmithError, UsageError
from kernelsmith.targets import Offline, Target, Toolchain, load


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels instead of the package index."""
    monkeypatch.setenv(toolchains.FOLDER_VARIABLE, str(tmp_path / "toolchains"))
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "abacus", "1.0")
    return folder


def wheel(folder: Path, name: str, version: str) -> None:
    files = {
        f"{name}/__init__.py": b"beads = 10\n",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{name}-{version}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    record = f"{name}-{version}.dist-info/RECORD"
    files[record] = "\n".join([*lines, f"{record},,"]).encode()
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)


def target(*packages: str, python: tuple[str, ...] = ()) -> Target:
    own = Toolchain(distribution="abacus", packages=packages, python=python)
    return load("ascend-910b3").model_copy(update={"toolchain": own})


def offline(index: Path) -> list[str]:
    return ["--no-index", "--find-links", str(index)]


def test_installed_found_and_removed(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = target("abacus==1.0")
    assert toolchains.located(wanted) is None and not toolchains.recorded()
    made = toolchains.install(wanted, index=offline(index))
    assert (made.folder / "abacus" / "__init__.py").read_text() == "beads = 10\n"
    (package,) = made.packages
    data = (index / "abacus-1.0-py3-none-any.whl").read_bytes()
    assert (package.name, package.version, package.sha256) == ("abacus", "1.0", hashlib.sha256(data).hexdigest())
    assert made.nbytes > 10 and made.words.startswith("abacus 1.0, 0 MB in ")
    monkeypatch.delenv(toolchains.FOLDER_VARIABLE)
    assert toolchains.installed(wanted) == made, "found by the user's configuration, wherever it was put"
    assert toolchains.located(target("abacus==2.0")) is None, "other versions are another toolchain"
    assert toolchains.remove(wanted) and toolchains.located(wanted) is None
    assert not made.folder.exists() and not toolchains.recorded() and not toolchains.remove(wanted)


def test_a_folder_that_somebody_deleted_is_not_found(index: Path) -> None:
    wanted = target("abacus==1.0")
    shutil.rmtree(toolchains.install(wanted, index=offline(index)).folder)
    assert toolchains.located(wanted) is None


def test_the_python_that_wheels_are_for_is_part_of_what_it_is(index: Path) -> None:
    own = toolchains.install(target("abacus==1.0"), index=offline(index))
    other = toolchains.install(target("abacus==1.0", python=("3.99",)), index=offline(index))
    assert (own.python, other.python) == (f"{sys.version_info[0]}.{sys.version_info[1]}", "3.99")
    assert own.folder != other.folder
    either = target("abacus==1.0", python=("3.99", own.python))
    assert toolchains.installed(either) == own, "the one that can be run here"
    assert toolchains.importable(either) == own.folder
    assert toolchains.importable(target("abacus==1.0", python=("3.99",))) is None


def test_a_compiler_in_python_needs_one_that_its_wheels_are_for(index: Path) -> None:
    """Where there is none it is not installed, and is not found either, so that nobody asks it in vain."""
    wanted = target("abacus==1.0", python=("3.98", "3.99")).model_copy(update={"offline": Offline.XPU})
    with pytest.raises(KernelsmithError, match=r"runs in Python 3.98, 3.99, and none of them is here") as caught:
        toolchains.install(wanted, index=offline(index))
    assert "python3.99 on the PATH" in caught.value.hint
    toolchains.install(wanted.model_copy(update={"offline": Offline.ASCEND}), index=offline(index))
    assert toolchains.installed(wanted) is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('folder = "/"', "folder is no absolute path that ends in abacus-"),
        ("nbytes = -1", "nbytes: Input should be greater"),
    ],
)
def test_a_record_that_was_spoilt_is_named(line: str, says: str, index: Path, tmp_path: Path) -> None:
    wanted = target("abacus==1.0")
    toolchains.install(wanted, index=offline(index))
    (record,) = (tmp_path / "no-config" / "kernelsmith" / "toolchains").iterdir()
    name = line.partition(" ")[0]
    record.write_text(re.sub(rf"^{name} = .*$", line, record.read_text(), flags=re.MULTILINE))
    with pytest.raises(UsageError, match=says) as caught:
        toolchains.installed(wanted)
    assert str(record) in caught.value.message


def test_what_is_there_is_not_made_again_unless_forced(index: Path) -> None:
    wanted = target("abacus==1.0")
    place = toolchains.install(wanted, index=offline(index)).folder
    (place / "abacus" / "__init__.py").write_text("beads = 0\n")
    toolchains.install(wanted, index=["--no-index"])
    assert (place / "abacus" / "__init__.py").read_text() == "beads = 0\n"
    toolchains.install(wanted, force=True, index=offline(index))
    assert (place / "abacus" / "__init__.py").read_text() == "beads = 10\n"


def test_a_failed_install_leaves_nothing_and_says_what_pip_said(index: Path) -> None:
    wanted = target("abacus==1.0", "slide-rule==3.1")
    with pytest.raises(
        KernelsmithError, match=r"pip cannot install abacus==1.0, slide-rule==3.1: .*slide-rule"
    ) as caught:
        toolchains.install(wanted, index=offline(index))
    assert "package index" in caught.value.hint
    assert toolchains.located(wanted) is None
    assert left() == []


PIP = "import sys; sys.stderr.write({!r}); sys.exit(1)"
UNPACKED = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device: '/x'\n"


def test_a_disk_that_is_full_while_pip_unpacks(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text(PIP.format(UNPACKED))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(KernelsmithError, match=r"the disk of .*toolchains is full") as caught:
        toolchains.install(target("abacus==1.0"))
    assert toolchains.FOLDER_VARIABLE in caught.value.hint


def test_a_disk_that_is_full_while_pip_loads(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text(PIP.format("ERROR: not enough bytes were received (52 MB/54 MB)\n"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    full = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(KernelsmithError, match=r"the disk of .*toolchains is full"):
        toolchains.install(target("abacus==1.0"))


def test_an_environment_without_pip(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    with pytest.raises(KernelsmithError, match=r"the Python that kernelsmith runs in has no pip") as caught:
        toolchains.install(target("abacus==1.0"))
    assert caught.value.hint == f"`{bare}/bin/python -m ensurepip` gives it one"


KILLED = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"


def test_what_a_killed_install_left_is_cleared_away(index: Path, tmp_path: Path) -> None:
    (tmp_path / "pip.py").write_text(KILLED)
    program = (
        "from kernelsmith import toolchains; from kernelsmith.targets import load; "
        "toolchains.install(load('ascend-910b3'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [name.startswith(".making-") for name in left()] == [True]
    made = toolchains.install(target("abacus==1.0"), index=offline(index))
    assert left() == [made.name]


def left() -> list[str]:
    """What lies in the folder of toolchains."""
    return sorted(path.name for path in toolchains.folder().iterdir() if path.name != ".lock")


@pytest.mark.parametrize("act", ["remove", "make anew"])
def test_what_is_half_deleted_is_not_found(act: str, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = target("abacus==1.0")
    place = toolchains.install(wanted, index=offline(index)).folder
    (place / "old beads").touch()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        toolchains.remove(wanted) if act == "remove" else toolchains.install(wanted, force=True, index=offline(index))
    assert (toolchains.located(wanted) is None) == (act == "remove")
    assert not (place / "old beads").exists()


def test_a_target_without_a_toolchain_of_its_own() -> None:
    with pytest.raises(UsageError, match="triton, as kernelsmith has it, will do"):
        toolchains.install(load("nvidia-h100"))
    with pytest.raises(UsageError, match="there is none"):
        toolchains.install(load("cambricon"))

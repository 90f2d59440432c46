"""Toolchains: made whole or not at all, found by what is pinned, shared by targets with the same packages."""

from __future__ import annotations

import base64
import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

from kernelsmith import toolchains
from kernelsmith.errors import KernelsmithError, UsageError
from kernelsmith.targets import Target, Toolchain, load


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


def target(*packages: str) -> Target:
    own = Toolchain(distribution="abacus", packages=packages)
    return load("ascend-910b3").model_copy(update={"toolchain": own})


def offline(index: Path) -> list[str]:
    return ["--no-index", "--find-links", str(index)]


def test_installed_found_and_removed(index: Path) -> None:
    wanted = target("abacus==1.0")
    assert toolchains.located(wanted) is None
    place = toolchains.install(wanted, index=offline(index))
    assert (place / "abacus" / "__init__.py").read_text() == "beads = 10\n"
    assert toolchains.located(wanted) == place
    assert toolchains.located(target("abacus==2.0")) is None, "other versions are another toolchain"
    assert toolchains.size(place) > 10
    assert toolchains.remove(wanted) and toolchains.located(wanted) is None
    assert not toolchains.remove(wanted)


def test_what_is_there_is_not_made_again_unless_forced(index: Path) -> None:
    wanted = target("abacus==1.0")
    place = toolchains.install(wanted, index=offline(index))
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
    assert list(toolchains.folder().iterdir()) == []


@pytest.mark.parametrize("act", ["remove", "make anew"])
def test_what_is_half_deleted_is_not_found(act: str, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = target("abacus==1.0")
    place = toolchains.install(wanted, index=offline(index))
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
    with pytest.raises(UsageError, match="nothing here drives triton-xpu yet"):
        toolchains.install(load("intel-max"))
    with pytest.raises(UsageError, match="there is none"):
        toolchains.install(load("cambricon"))

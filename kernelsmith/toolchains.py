"""Compilers for devices that are not here, each in a folder of its own: made from the package index with the versions
that a target's file pins, and recorded in the user's configuration, by which they are found again.

triton-ascend and others install into the folder `triton` and exclude the Triton that kernelsmith runs with, so nothing
of a toolchain is ever imported here: its programs are run, and confined processes that hold no other Triton import it.
Invariant: what is found is whole, since it is recorded when all is there and its record goes before it does. Used by
`targets install`, judges, `doctor` and `targets list`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from kernelsmith import config
from kernelsmith.base import Frozen
from kernelsmith.errors import KernelsmithError, UsageError
from kernelsmith.files import read_toml
from kernelsmith.targets import Offline, Target, Toolchain

FOLDER_VARIABLE = "KERNELSMITH_TOOLCHAINS"
"""Environment variable that names another place for new ones."""
SECONDS = 1800.0
_SHOWN_LINES = 4
_PROGRAMS_OF_PYTHON = frozenset({Offline.XPU})
"""Families whose compiler is run by a Python that its wheels are for; of others there are programs."""
_GLANCE_SECONDS = 0.1
_FULL_BYTES = 4 << 20
"""Room of a disk on which pip, which writes more than that at once, has found none."""
_NO_ROOM = tuple(f"[Errno {number}]" for number in (errno.ENOSPC, errno.EDQUOT))
"""What pip says where the disk or the user's share of it is full while it unpacks."""


class Package(Frozen):
    name: str
    version: str
    sha256: str
    """Of the wheel that was installed."""


class Installed(Frozen):
    """A toolchain that is here, as the user's configuration has it."""

    name: str = Field(pattern=r"^[\w.-]+$")
    folder: Path
    """Its packages; goes before `sys.path` of what imports them."""
    python: str = Field(pattern=r"^\d+\.\d+$")
    """The Python that its wheels were chosen for."""
    packages: tuple[Package, ...]
    nbytes: int = Field(ge=0)
    """On disk."""
    seconds: float = Field(ge=0)
    """That making it took."""

    @model_validator(mode="after")
    def _own(self) -> Self:
        """`remove` deletes the folder: no slip of a pen may make that another one."""
        if not self.folder.is_absolute() or self.folder.name != self.name:
            raise ValueError(f"folder is no absolute path that ends in {self.name}")
        return self

    @property
    def words(self) -> str:
        """As `doctor` and `targets install` put it."""
        packages = ", ".join(f"{package.name} {package.version}" for package in self.packages)
        return f"{packages}, {self.nbytes / 1e6:,.0f} MB in {self.folder}"


def folder() -> Path:
    """Where new ones are made: with the user's own data (XDG Base Directory Specification)."""
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given).absolute()
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data).absolute() / "kernelsmith" / "toolchains"


def interpreter(python: str) -> str | None:
    """What runs that version of Python here."""
    return sys.executable if python == _own_python() else shutil.which(f"python{python}")


def installed(target: Target) -> Installed | None:
    """The target's toolchain; None where it needs none of its own, or none is here. Targets with the same packages
    share one. Raises UsageError where its record cannot be read."""
    if target.toolchain is None or not target.toolchain.packages:
        return None
    for python in _pythons(target, target.toolchain):
        found = _recorded(_name(target.toolchain, python))
        if found is not None and found.folder.is_dir():
            return found
    return None


def located(target: Target) -> Path | None:
    """The same, its folder of packages alone."""
    found = installed(target)
    return None if found is None else found.folder


def importable(target: Target) -> Path | None:
    """As `located`, of one that this very Python can import from."""
    found = installed(target)
    return found.folder if found is not None and found.python == _own_python() else None


def recorded() -> tuple[str, ...]:
    """Names of all; a name stands for versions, Python and platform."""
    return tuple(sorted(path.stem for path in _records().glob("*.toml")))


def install(target: Target, *, force: bool = False, index: Sequence[str] = ()) -> Installed:
    """Make the target's toolchain, or find that it is there; `index` are more words for pip.

    Only wheels, so that nothing of a package is run; for this Python where there are such, otherwise for one that is
    here. What installs that were killed have left is cleared away. Raises UsageError where the target needs none, and
    KernelsmithError where it cannot be had.
    """
    toolchain = _needed(target)
    wanted = next(iter(_pythons(target, toolchain)), None)
    if wanted is None:
        versions = ", ".join(toolchain.python)
        message = f"the toolchain of {target.name} runs in Python {versions}, and none of them is here"
        raise KernelsmithError(message, f"install one and have python{toolchain.python[-1]} on the PATH")
    place = folder() / _name(toolchain, wanted)
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with _alone(folder()) as lock:
            there = installed(target)
            if there is not None and not force:
                return there
            for left in (*folder().glob(".making-*"), *folder().glob(".removing-*")):
                shutil.rmtree(left)  # its maker is dead, or it would hold the lock
            with tempfile.TemporaryDirectory(dir=folder(), prefix=".making-") as making:
                begin = time.monotonic()
                packages = _pip(target.name, toolchain, wanted, Path(making), index, lock)
                if place.is_dir():
                    place.rename(Path(making) / "old")  # deleted with the rest, once the new one has its name
                (Path(making) / "packages").rename(place)
            made = Installed(
                name=place.name,
                folder=place,
                python=wanted,
                packages=packages,
                nbytes=_size(place),
                seconds=time.monotonic() - begin,
            )
            _record(made)
    except OSError as error:
        advice = f"make room or set {FOLDER_VARIABLE} to another folder"
        raise KernelsmithError(f"cannot make {place}: {error.strerror or error}", advice) from error
    return made


def remove(target: Target) -> bool:
    """Whether there was anything to remove. Raises KernelsmithError where that cannot be done."""
    found = installed(target)
    if found is None:
        return False
    try:
        with (
            _alone(found.folder.parent),
            tempfile.TemporaryDirectory(dir=found.folder.parent, prefix=".removing-") as d,
        ):
            (_records() / f"{found.name}.toml").unlink(missing_ok=True)  # at once, so that half of one is never found
            found.folder.rename(Path(d) / "old")
    except OSError as error:
        message = f"cannot remove {found.folder}: {error.strerror or error}"
        raise KernelsmithError(message, "delete what is left there by hand") from error
    return True


def _needed(target: Target) -> Toolchain:
    toolchain = target.toolchain
    if toolchain is None or not toolchain.packages:
        needs = "there is none" if toolchain is None else f"{toolchain.distribution}, as kernelsmith has it, will do"
        raise UsageError(f"{target.name} has no toolchain to install: {needs}", "`kernelsmith targets list` shows more")
    return toolchain


def _name(toolchain: Toolchain, python: str) -> str:
    """Decided by what is pinned and by what wheels are chosen for; a home may be shared by different machines."""
    parts = "\n".join((*sorted(toolchain.packages), f"python {python}", sysconfig.get_platform()))
    return f"{toolchain.distribution}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}"


def _pythons(target: Target, toolchain: Toolchain) -> tuple[str, ...]:
    """Versions that its wheels may be for: this one, then what else is here, then the rest; newer before older. Only
    those that are here where the compiler is a Python program."""
    own = _own_python()
    newest = sorted(toolchain.python or (own,), key=lambda v: tuple(map(int, v.split("."))), reverse=True)
    here = [version for version in newest if interpreter(version) is not None]
    rest = [] if target.offline in _PROGRAMS_OF_PYTHON else [version for version in newest if version not in here]
    return (*sorted(here, key=lambda version: version != own), *rest)


def _own_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@contextmanager
def _alone(place: Path) -> Iterator[int]:
    """One process at a time makes or removes here. Whoever inherits the lock holds it too, until the last is dead."""
    lock = os.open(place / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())


# -------------------------------------------------------------------- the user's configuration


def _records() -> Path:
    return config.user_folder() / "toolchains"


def _recorded(name: str) -> Installed | None:
    path = _records() / f"{name}.toml"
    if not path.is_file():
        return None
    try:
        found = Installed.model_validate(read_toml(path))
        if found.name == name:
            return found
        wrong = f"it is the record of {found.name}"
    except ValidationError as error:
        first = error.errors()[0]
        wrong = f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg'].removeprefix('Value error, ')}"
    raise UsageError(f"{path}: {wrong}", "delete the file and install the toolchain again")


def _record(made: Installed) -> None:
    """Written whole or not at all."""
    lines = ["# Written by `kernelsmith targets install`.", *_lines(made.model_dump(mode="json", exclude={"packages"}))]
    for package in made.packages:
        lines += ["", "[[packages]]", *_lines(package.model_dump())]
    path = _records() / f"{made.name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


def _lines(values: dict[str, str | int | float]) -> Iterator[str]:
    """JSON writes plain text and numbers as TOML does."""
    return (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())


# -------------------------------------------------------------------- pip


def _pip(
    name: str, toolchain: Toolchain, python: str, making: Path, index: Sequence[str], lock: int
) -> tuple[Package, ...]:
    """Everything that is pinned in `making/packages`. Nothing is written elsewhere but pip's own cache."""
    report = making / "report.json"
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    words += ["--no-deps", "--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    words += ["--target", str(making / "packages"), "--report", str(report), *index, *toolchain.packages]
    code, said, least_free = _watched(words, making, lock)
    if code is None:
        message = f"installing the toolchain of {name} took more than {SECONDS:.0f} s"
        raise KernelsmithError(message, "is the package index reachable?")
    if code:
        raise _refused(toolchain, making.parent, said, least_free)
    found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return tuple(
        Package(
            name=one["metadata"]["name"],
            version=one["metadata"]["version"],
            sha256=one["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for one in found
    )


def _watched(words: list[str], making: Path, lock: int) -> tuple[int | None, str, int]:
    """How pip ended, None where it took too long; what it said of it; the least room, in bytes, that the disk had.

    A full disk is to pip a download that ends early, and it has deleted its files again when it says so.
    """
    least, end = shutil.disk_usage(making).free, time.monotonic() + SECONDS
    environment = {**os.environ, "TMPDIR": str(making)}
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=(lock,), env=environment
    ) as pip:
        try:
            while time.monotonic() < end:
                least = min(least, shutil.disk_usage(making).free)
                with suppress(subprocess.TimeoutExpired):
                    said = pip.communicate(timeout=_GLANCE_SECONDS)[1]
                    return pip.returncode, said, least
        finally:
            pip.kill()
    return None, "", least


def _refused(toolchain: Toolchain, place: Path, said: str, least_free: int) -> KernelsmithError:
    """Why pip did not do it."""
    lines = [line for line in said.splitlines() if line.strip()]
    packages = ", ".join(toolchain.packages)
    if lines and lines[-1].endswith("No module named pip"):
        advice = f"`{sys.executable} -m ensurepip` gives it one"
        return KernelsmithError(f"cannot install {packages}: the Python that kernelsmith runs in has no pip", advice)
    if least_free < _FULL_BYTES or any(sign in said for sign in _NO_ROOM):
        advice = f"make room or set {FOLDER_VARIABLE} to another folder"
        return KernelsmithError(f"cannot install {packages}: the disk of {place} is full", advice)
    advice = "pip must reach a package index that has these versions; it uses your own settings of pip"
    return KernelsmithError(f"pip cannot install {packages}: {'; '.join(lines[-_SHOWN_LINES:])}", advice)

"""Compilers for devices that are not here, each in a folder of its own: made from the package index with the versions
that a target's file pins, found again by them.

triton-ascend and others install into the folder `triton` and exclude the Triton that kernelsmith runs with, so nothing
of a toolchain is ever imported here: its programs are run. Invariant: a folder that is found is whole, since it gets
its name when all is in it. Used by `targets install`, judges, `doctor` and `targets list`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelsmith.errors import KernelsmithError, UsageError
from kernelsmith.targets import COMPILED_HERE, Target, Toolchain

FOLDER_VARIABLE = "KERNELSMITH_TOOLCHAINS"
"""Environment variable that names another place for them."""
SECONDS = 1800.0
_SHOWN_LINES = 4


def folder() -> Path:
    """Where toolchains are kept: with the user's own data (XDG Base Directory Specification)."""
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "kernelsmith" / "toolchains"


def place(toolchain: Toolchain) -> Path:
    """Where one is or would be; targets with the same packages share it."""
    pinned = hashlib.sha256("\n".join(sorted(toolchain.packages)).encode()).hexdigest()[:12]
    return folder() / f"{toolchain.distribution}-{pinned}"


def located(target: Target) -> Path | None:
    """The toolchain's folder of packages; None where the target needs none of its own, or it is not installed."""
    if target.toolchain is None or not target.toolchain.packages:
        return None
    found = place(target.toolchain)
    return found if found.is_dir() else None


def install(target: Target, *, force: bool = False, index: Sequence[str] = ()) -> Path:
    """Make the target's toolchain, or find that it is there; `index` are more words for pip.

    Only wheels, so that nothing of a package is run; for the newest Python that they are made for. Raises UsageError
    where the target needs none, and KernelsmithError where it cannot be had.
    """
    toolchain = target.toolchain
    if toolchain is None or not toolchain.packages:
        needs = "there is none" if toolchain is None else f"{toolchain.distribution}, as kernelsmith has it, will do"
        raise UsageError(f"{target.name} has no toolchain to install: {needs}", "`kernelsmith targets list` shows more")
    if target.offline not in COMPILED_HERE:
        message = f"{target.name}: nothing here drives {toolchain.distribution} yet, so it would be of no use"
        raise UsageError(message, "`kernelsmith targets list` shows which compilers are")
    wanted = place(toolchain)
    if wanted.is_dir() and not force:
        return wanted
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wanted.parent, prefix=".making-") as making:
            made = Path(making) / "packages"
            _pip(target.name, toolchain, made, index)
            if wanted.is_dir():
                wanted.rename(Path(making) / "old")  # deleted with the rest, once the new one has its name
            made.rename(wanted)
    except OSError as error:
        advice = f"make room or set {FOLDER_VARIABLE} to another folder"
        raise KernelsmithError(f"cannot make {wanted}: {error.strerror or error}", advice) from error
    return wanted


def remove(target: Target) -> bool:
    """Whether there was anything to remove. Raises KernelsmithError where that cannot be done."""
    found = located(target)
    if found is None:
        return False
    try:
        with tempfile.TemporaryDirectory(dir=found.parent, prefix=".removing-") as removing:
            found.rename(Path(removing) / "old")  # at once, so that half of one is never found
    except OSError as error:
        message = f"cannot remove {found}: {error.strerror or error}"
        raise KernelsmithError(message, "delete what is left there by hand") from error
    return True


def size(path: Path) -> int:
    """Bytes on disk."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())


def _pip(name: str, toolchain: Toolchain, made: Path, index: Sequence[str]) -> None:
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
    ]
    words += ["--only-binary=:all:", "--target", str(made), *index, *toolchain.packages]
    if toolchain.python:
        words += ["--python-version", max(toolchain.python, key=_numbers), "--implementation", "cp"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        message = f"installing the toolchain of {name} took more than {SECONDS:.0f} s"
        raise KernelsmithError(message, "is the package index reachable?") from error
    if done.returncode:
        said = "; ".join([line for line in done.stderr.splitlines() if line.strip()][-_SHOWN_LINES:])
        advice = "pip must reach a package index that has these versions; it uses your own settings of pip"
        raise KernelsmithError(f"pip cannot install {', '.join(toolchain.packages)}: {said}", advice)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))

"""Zygotes for tests: the modes that can be had on this machine, and an interpreter that each of them can read."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.drill.drill import MODES as MODES
from kernelsmith.errors import SandboxError
from kernelsmith.sandbox.children.zygote import Child, Zygote
from kernelsmith.sandbox.limits import Limits

ROLES = str(Path(__file__).parent / "roles")
SMALL = Limits(
    seconds=20, memory_bytes=96 << 20, processes=24, file_bytes=8 << 20, scratch_bytes=16 << 20, log_bytes=1 << 18
)


def everyones_python() -> str:
    """An interpreter that another user can run: this one, unless it lives in a private home."""
    folder = Path(sys.base_prefix).resolve()
    public = all(part.stat().st_mode & 0o001 for part in (folder, *folder.parents))
    system = shutil.which("python3", path="/usr/bin:/bin")
    if public or os.geteuid() != 0:
        return sys.executable
    if system is None or sys.version_info[:2] < (3, 11):
        pytest.skip("no interpreter outside a private home")
    return system


@contextlib.contextmanager
def alone_of_its_user(zygote: Zygote) -> Iterator[None]:
    """Where candidates have no user namespace, their limit of processes counts all of the user's: those of tests that
    run beside this one too."""
    if zygote.layers.user_namespace:
        yield
        return
    with (Path(tempfile.gettempdir()) / f"kernelsmith-tests-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def python_for(mode: str) -> str:
    """An interpreter that zygotes of this mode can use; skips where the mode cannot be had."""
    if mode == "without user namespaces" and os.geteuid() != 0:
        pytest.skip("we are not root")
    return everyones_python() if mode == "without namespaces" else sys.executable


def light_zygote(mode: str = "full", **options: Any) -> Zygote:
    """A zygote that preloads next to nothing, so that it starts in milliseconds; skips where this mode is not sound."""
    options.setdefault("python", python_for(mode))
    try:
        return Zygote(preload=("json",), path=[ROLES], without=MODES[mode], **options)
    except SandboxError as error:
        if "cannot be confined here" not in error.message:
            raise
        pytest.skip(error.message)


def ask(child: Child, act: str, *, seconds: float = 20.0, fds: tuple[int, ...] = (), **order: Any) -> Any:
    """One request to a role of tests/sandbox/roles, and its answer."""
    return json.loads(child.request(json.dumps({"act": act, **order}).encode(), fds, seconds=seconds).payload)

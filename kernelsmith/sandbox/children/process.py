"""The zygote's process as the judge sees it, and the descriptors that tie each child to the judge.

Invariant: the process starts with an environment of its own, which holds no key and no secret, and every descriptor
made here is closed by `close` or handed over once. Only zygote.py uses it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelsmith.errors import InfrastructureError, SandboxError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.confine.confine import Setup
from kernelsmith.sandbox.confine.entry import NOBODY
from kernelsmith.sandbox.limits import Layers
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError, ProtocolError

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
# A library that ever ran parallel code in the zygote would hang in its forks.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
_WARM_SECONDS = 300.0
SPAWN_SECONDS = 60.0
_DEATH_SECONDS = 20.0
# The package is loaded from its own folder, so that no neighbour of it enters the import path.
BOOT = """
import importlib.util, sys
home = sys.argv[2]
spec = importlib.util.spec_from_file_location("kernelsmith", home + "/__init__.py", submodule_search_locations=[home])
sys.modules["kernelsmith"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["kernelsmith"])
importlib.import_module(sys.argv[3]).main(int(sys.argv[1]))
"""


class ZygoteProcess:
    """One run of the zygote's process, from exec to its end."""

    def __init__(self, python: str, environment: Mapping[str, str], setup: Setup) -> None:
        self.base = _private_folder()
        self.control, theirs = Channel.pair()
        self.lost = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = self._execute(python, environment, theirs.fileno(), setup.package)
            theirs.close()
            self.layers = self._greet(replace(setup, base=self.base))
        except BaseException:
            theirs.close()
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process that was started; the zygote itself, or its keeper where it has namespaces of its own."""
        return self._process.pid if self._process else 0

    @property
    def alive(self) -> bool:
        """Whether it can still be asked for children, as far as we know."""
        return not self.lost and self._process is not None and self._process.poll() is None

    def _execute(self, python: str, given: Mapping[str, str], fd: int, package: str) -> subprocess.Popen[bytes]:
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        try:
            return subprocess.Popen(
                [python, "-I", "-B", "-c", BOOT, str(fd), package, "kernelsmith.sandbox.children.server"],
                env={**environment, **_ONE_THREAD, **given},
                cwd="/",
                pass_fds=[fd],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"the zygote did not start: {error}", f"is {python} an interpreter?") from error

    def _greet(self, setup: Setup) -> Layers:
        try:
            self.control.send(setup.encode())
            if self._said()["mounted"]:
                Path(self.base).rmdir()  # it was only a place to mount on: nothing is left if we are killed
            layers = self._said()["layers"]
        except (ProtocolError, TimeoutError) as error:
            hint = self._stderr() or "it ended without a word, as it does when memory is short; run again"
            raise SandboxError(f"the zygote did not start: {error}", hint) from error
        return Layers(**{**layers, "notes": tuple(layers["notes"])})

    def _said(self) -> dict[str, Any]:
        """What the starting zygote says next, once before and once after it has imported everything."""
        said: dict[str, Any] = json.loads(self.control.receive(time.monotonic() + _WARM_SECONDS).payload)
        if "error" in said:
            raise SandboxError(f"the zygote did not start: {said['error']}", self._stderr())
        return said

    def make_scratch(self) -> str:
        """A folder for one child, where it cannot have a mount of its own."""
        folder = _private_folder(self.base)
        if self.layers.other_uid:
            os.chown(folder, NOBODY, NOBODY, follow_symlinks=False)
        return folder

    def _stderr(self) -> str:
        return os.pread(self._errors.fileno(), 1 << 16, 0).decode(errors="replace")[-2000:]

    def close(self) -> None:
        """Hang up; the zygote and all its children end."""
        self.control.close()
        if self._process is not None:
            if self.lost:  # it does not listen: it may have been stopped
                self._process.kill()
            try:
                self._process.wait(_DEATH_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._errors.close()
        usage.remove_tree(self.base)


def _private_folder(inside: str | None = None) -> str:
    """A new one that we can use whatever our umask is."""
    folder = tempfile.mkdtemp(prefix="kernelsmith-", dir=inside)
    Path(folder).chmod(0o700)
    return folder


FEWEST_FILES = 100
"""Open files that a process must be allowed: with 64 a child dies before it can say why, with 100 all works."""


def _scarce() -> str:
    """What a child may have been short of."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = files != resource.RLIM_INFINITY and files < FEWEST_FILES
    return f"only {files} files may be open here: raise the hard limit (ulimit -n)" if few else "is memory short?"


class Wires:
    """What ties one child to the judge: the ends of descriptors that we keep, those that go to the zygote, its files.

    Whoever gets no child closes them; a child's watcher has them otherwise.
    """

    def __init__(self) -> None:
        self.channel, self._their_channel = Channel.pair(max_fds=1)
        self.status, self._their_status = Channel.pair(max_fds=1)
        self.log, self._their_log = os.pipe()
        os.set_blocking(self.log, False)
        self.folder = ""
        """Made for the child; empty where it mounts one of its own."""
        self._pidfd: int | None = None
        self._scratch: int | None = None
        self._given = True
        self._deadline = time.monotonic() + SPAWN_SECONDS

    @property
    def given(self) -> list[int]:
        """In the order that the server expects."""
        return [self._their_channel.fileno(), self._their_log, self._their_status.fileno()]

    def hand_over(self) -> None:
        """Close the ends that the zygote has now, so that its death is seen as the end of ours."""
        if self._given:
            self._given = False
            self._their_channel.close()
            self._their_status.close()
            os.close(self._their_log)

    def receive_pidfd(self, server: ZygoteProcess) -> int:
        """The child's pidfd, from the zygote."""
        try:
            frame = self.status.receive(self._deadline)
        except (PeerGoneError, TimeoutError):
            server.lost = True
            raise
        self.status.refuse_fds()
        if not frame.fds:
            raise InfrastructureError(f"the zygote could not start a child: {json.loads(frame.payload)['error']}")
        (self._pidfd,) = frame.fds
        return self._pidfd

    def receive_birth(self) -> int:
        """A descriptor of the scratch, from the child itself: it is confined, and runs the role from here on."""
        try:
            frame = self.channel.receive(self._deadline)
        except PeerGoneError as error:
            raise InfrastructureError("a child died before it was confined", _scarce()) from error
        said = json.loads(frame.payload)
        if "error" in said:
            raise InfrastructureError(f"a child could not confine itself: {said['error']}")
        self.channel.refuse_fds()
        (self._scratch,) = frame.fds
        return self._scratch

    def close(self) -> None:
        """Give up on the child; the zygote buries it."""
        self.hand_over()
        self.channel.close()
        self.status.close()
        os.close(self.log)
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
        if self._scratch is not None:
            os.close(self._scratch)
        if self.folder:
            usage.remove_tree(self.folder)


def pid_behind(pidfd: int) -> int:
    """The process's number as seen here; its own namespace knows it as 1."""
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pid:")))


def ends_within(pidfd: int, seconds: float) -> bool:
    """Whether the process is dead by then, awaited or not; a pidfd can be read from then on."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))

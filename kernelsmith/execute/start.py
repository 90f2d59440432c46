"""How a judge's process begins: as the user's own program, or in quarantine where its operator came from elsewhere.

Invariant: neither has a key in its environment or imports from the folder that the user stands in, and a judge in
quarantine is confined before it is told of any operator. Called by local.py.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from kernelsmith import keys
from kernelsmith import targets as files
from kernelsmith.errors import SandboxError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children.process import BOOT, PASSED_ON
from kernelsmith.sandbox.confine.quarantine import Plan
from kernelsmith.sandbox.limits import Layer
from kernelsmith.sandbox.wire.protocol import Channel, ProtocolError

START_SECONDS = 60.0
_OURS = ("KERNELSMITH_CPU", "KERNELSMITH_CXX", "CXX")
"""Begin of the names that a judge in quarantine is given beside those of a zygote."""


@dataclass(frozen=True)
class Order:
    """What a judge is to be."""

    target: str
    width: int = 2
    unsafe: bool = False
    targets: Path | None = None
    """Folder of the `--targets` flag."""
    foreign: bool = False
    """Its operator came from elsewhere."""
    without: Collection[Layer] = ()
    """Layers of the quarantine that are left out on purpose."""


@dataclass
class Started:
    """A running judge's process, our end of its channel, what it prints, and its folder if it has one."""

    process: subprocess.Popen[bytes]
    channel: Channel
    log: IO[bytes]
    base: str = field(default="")

    def clear(self) -> None:
        """Remove its folder; call it once nobody needs that any more."""
        if self.base:
            usage.remove_tree(self.base)
            self.base = ""


def start(order: Order) -> Started:
    """Raises SandboxError where the operator cannot be confined."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    log = tempfile.TemporaryFile(prefix="kernelsmith-judge-")  # noqa: SIM115 - lives as long as the judge
    try:
        if order.foreign:
            return _quarantined(order, Channel(ours, max_fds=0), theirs.fileno(), log)
        return Started(_execute(_own(order, theirs.fileno()), theirs.fileno(), log, _environment()), Channel(ours), log)
    finally:
        theirs.close()


def _own(order: Order, fd: int) -> list[str]:
    command = ["-m", "kernelsmith.evaluate.judge", "--fd", str(fd), "--target", order.target]
    command += ["--width", str(order.width)]
    command += ["--targets", str(order.targets)] if order.targets is not None else []
    return command + (["--unsafe-no-sandbox"] if order.unsafe else [])


def _quarantined(order: Order, channel: Channel, fd: int, log: IO[bytes]) -> Started:
    base = tempfile.mkdtemp(prefix="kernelsmith-judge-")
    folder = files.available(order.targets)[order.target].parent.absolute()
    plan = Plan(base, (str(folder),), tuple(order.without), order.unsafe)
    command = ["-I", "-B", "-c", BOOT, str(fd), str(Path(__file__).parents[1]), "kernelsmith.evaluate.quarantined"]
    started = Started(_execute(command, fd, log, _bare()), channel, log, base)
    try:
        channel.send(plan.encode())
        channel.send(json.dumps({"target": order.target, "targets": str(folder), "width": order.width}).encode())
        said = json.loads(channel.receive(time.monotonic() + START_SECONDS).payload)
    except (ProtocolError, TimeoutError) as error:
        _abandon(started)
        raise SandboxError(f"the confined judge did not start: {error}", "run again; is memory short?") from error
    if "error" in said:
        _abandon(started)
        raise SandboxError(said["error"], said["hint"])
    if said["mounted"]:
        started.clear()  # it was only a place to mount on: nothing is left if we are killed
    return started


def _abandon(started: Started) -> None:
    started.channel.close()
    started.process.kill()
    started.process.wait()
    started.clear()


def _execute(arguments: list[str], fd: int, log: IO[bytes], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", *arguments],
        pass_fds=[fd],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment,
        start_new_session=True,
    )


def _bare() -> dict[str, str]:
    """Of a judge in quarantine: what a zygote is given, and what chooses the compiler."""
    return {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(_OURS)}


def _environment() -> dict[str, str]:
    """The judge's environment: ours without keys, and with this package importable wherever it was started from."""
    environment = keys.without_secrets()
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    return environment

"""How a judge's process begins: as the user's own program, or in quarantine where its operator came from elsewhere.

Invariant: neither has a key in its environment or imports from the folder that the user stands in, and a judge in
quarantine is confined before it is told of any operator. Called by local.py.
"""

from __future__ import annotations

import contextlib
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
from kernelsmith.errors import SandboxError, UsageError
from kernelsmith.execute.wire import Assigned, Settled
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
    """Raises UsageError for an unknown target, and for an operator from elsewhere on an accelerator; SandboxError where
    such an operator cannot be confined."""
    target = files.load(order.target, order.targets)
    if order.foreign and target.access.cards is not None:
        raise UsageError(
            f"an operator from elsewhere is judged without any device, and {target.name} is one",
            "read the operator file and name it yourself if you trust it, or use --device cpu",
        )
    with contextlib.ExitStack() as unless_started:
        ours, theirs = map(unless_started.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
        log = unless_started.enter_context(tempfile.TemporaryFile(prefix="kernelsmith-judge-"))
        if order.foreign:
            started = _quarantined(order, Channel(ours, max_fds=0), theirs, log)
        else:
            started = Started(_execute(_own(order, theirs.fileno()), theirs, log, _environment()), Channel(ours), log)
        unless_started.pop_all()
    return started


def _own(order: Order, fd: int) -> list[str]:
    command = ["-m", "kernelsmith.evaluate.judge", "--fd", str(fd), "--target", order.target]
    command += ["--width", str(order.width)]
    command += ["--targets", str(order.targets)] if order.targets is not None else []
    return command + (["--unsafe-no-sandbox"] if order.unsafe else [])


def _quarantined(order: Order, channel: Channel, theirs: socket.socket, log: IO[bytes]) -> Started:
    folder = str(files.available(order.targets)[order.target].parent.absolute())
    with contextlib.ExitStack() as unless_started:
        base = tempfile.mkdtemp(prefix="kernelsmith-judge-")
        unless_started.callback(usage.remove_tree, base)
        package = str(Path(__file__).parents[1])
        command = ["-I", "-B", "-c", BOOT, str(theirs.fileno()), package, "kernelsmith.evaluate.quarantined"]
        process = _execute(command, theirs, log, _bare())
        unless_started.callback(_end, process)
        try:
            channel.send(Plan(base, (folder,), tuple(order.without), order.unsafe).encode())
            channel.send(Assigned(target=order.target, targets=folder, width=order.width).model_dump_json().encode())
            settled = Settled.model_validate_json(channel.receive(time.monotonic() + START_SECONDS).payload)
        except (ProtocolError, TimeoutError, ValueError) as error:
            raise SandboxError(f"the confined judge did not start: {error}", "run again; is memory short?") from error
        if settled.error:
            raise SandboxError(settled.error, settled.hint)
        unless_started.pop_all()
    started = Started(process, channel, log, base)
    if settled.mounted:
        started.clear()  # it was only a place to mount on: nothing is left if we are killed
    return started


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _execute(
    arguments: list[str], theirs: socket.socket, log: IO[bytes], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Its end of the channel is closed here, so that its death is seen."""
    with theirs:
        return subprocess.Popen(
            [sys.executable, "-P", *arguments],
            pass_fds=[theirs.fileno()],
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

"""Enters quarantine as a judge would, then tries to leave it: answers what succeeded, and does not end by itself."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelsmith.sandbox.confine import quarantine
from kernelsmith.sandbox.wire.protocol import Channel


def main(fd: int) -> None:
    channel = Channel(socket.socket(fileno=fd), max_fds=0)
    plan = quarantine.Plan.decode(channel.receive().payload)
    order = json.loads(channel.receive().payload)
    quarantine.GRACE_SECONDS = 0.3
    quarantine.DEATH_SECONDS = 1.0
    try:
        scratch = quarantine.enter(plan, order["package"], fd)
    except Exception as error:  # noqa: BLE001 - told to the test
        channel.send(json.dumps({"error": str(error)}).encode())
        return
    sys.stdout.write("x" * (4 << 20))
    answer = {
        "succeeded": [name for name, act in attacks(order).items() if works(act)],
        "daemons": start_daemons(order["daemons"], chatty=order.get("chatty", False)),
    }
    answer["scratch"] = Path(scratch, "file").write_text("may be written")
    answer["environment"] = dict(os.environ)
    answer["core"] = resource.getrlimit(resource.RLIMIT_CORE)
    channel.send(json.dumps(answer).encode())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if order.get("dies"):
        return
    hoard = []
    while order.get("hoards"):
        hoard.append(b"x" * (8 << 20))
        time.sleep(0.01)
    while True:
        time.sleep(60)


def works(act: Callable[[], Any]) -> bool:
    try:
        return act() is not False
    except (OSError, ValueError):
        return False


def attacks(order: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    outside, judge = Path(order["outside"]), order["pid"]
    libc = ctypes.CDLL(None, use_errno=True)

    def connect(family: int, kind: int, address: Any) -> None:
        with socket.socket(family, kind) as peer:
            peer.settimeout(2)
            peer.connect(address)
            peer.send(b"x")

    return {
        "read a secret": (outside / "secret").read_text,
        "list a home": lambda: os.listdir(outside),
        "write outside": lambda: (outside / "written").write_text("x"),
        "write into the package": lambda: Path(order["package"], "written").write_text("x"),
        "change a mode": lambda: (os.chmod(outside / "secret", 0o777), (outside / "secret").read_text()),
        "tcp": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", order["port"])),
        "udp": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", order["port"])),
        "abstract socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + order["abstract"]),
        "socket by path": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, str(outside / "socket")),
        "signal the judge": lambda: os.kill(judge, 0),
        "signal the keeper": lambda: os.getppid() != 0 and os.kill(os.getppid(), signal.SIGUSR1),
        "environment of the judge": lambda: Path(f"/proc/{judge}/environ").read_bytes().index(b"canary"),
        "memory of the judge": lambda: open(f"/proc/{judge}/mem", "rb"),
        "ptrace the judge": lambda: libc.ptrace(16, judge, 0, 0) == 0,
        "limits of the judge": lambda: libc.prlimit(judge, 7, 0, bytes(16)) == 0,
        "look for devices": lambda: os.open("/dev/kmsg", os.O_RDONLY),
        "become root": lambda: os.setuid(0),
        "mount": lambda: libc.mount(b"none", b"/usr", b"tmpfs", 0, 0) == 0,
    }


def start_daemons(count: int, *, chatty: bool) -> int:
    """Sessions of their own whose parents are dead, deaf to their parents' ends; chatty ones never stop to print."""
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
                while chatty:
                    os.write(1, b"x" * 1000)
                with contextlib.suppress(OSError):
                    os.closerange(0, 1024)
                while True:
                    time.sleep(60)
            os._exit(0)
        os.wait()
    return count

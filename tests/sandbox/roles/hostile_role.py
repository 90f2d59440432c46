"""Children that mean harm. Run them only as confined roles: each really does its worst."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main(channel, scratch):
    """Do one thing; answer what came of every attempt, where the thing lets us."""
    order = json.loads(channel.receive().payload)
    channel.send(json.dumps(ACTS[order["act"]](order, channel)).encode())


def attempt(results, name, act):
    try:
        results[name] = f"GOT {act()!r}"[:200]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        results[name] = f"denied: {type(error).__name__} {error}"[:200]


def read_some(path):
    with open(path, "rb") as file:
        return file.read(9)


def _list_tmp():
    """Names in /tmp beyond the way to what a child must read: this checkout or its environment may lie there."""
    needed = [*sys.modules["kernelsmith"].__path__, sys.prefix, sys.base_prefix]
    names = [name for name in os.listdir("/tmp") if not any(f"{path}/".startswith(f"/tmp/{name}/") for path in needed)]
    if not names:
        raise PermissionError("nothing to see")
    return names


def secrets(order, channel):
    results = {}

    def link(make):
        def through():
            make(order["secret"], "link")
            return Path("link").read_text()

        return through

    attempt(results, "file", lambda: Path(order["secret"]).read_text())
    attempt(results, "through a symbolic link", link(os.symlink))
    attempt(results, "through a hard link", link(os.link))
    attempt(results, "shadow", lambda: Path("/etc/shadow").read_text())
    attempt(results, "list the folder", lambda: os.listdir(os.path.dirname(order["secret"])))
    attempt(results, "list /tmp", _list_tmp)
    for name in ("environ", "cmdline", "maps", "mem"):
        attempt(results, f"the judge's {name}", lambda name=name: read_some(f"/proc/{order['judge']}/{name}"))
    attempt(results, "root of the judge", lambda: os.listdir(f"/proc/{order['judge']}/root/etc"))
    attempt(results, "init's environ", lambda: read_some(f"/proc/{os.getppid()}/environ"))
    return results


def spin_deaf_to_signals(order, channel):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        pass


def fork_and_sleep(order, channel):
    os.fork()
    os.fork()
    time.sleep(100)


ACTS = {act.__name__: act for act in (secrets, spin_deaf_to_signals, fork_and_sleep)}

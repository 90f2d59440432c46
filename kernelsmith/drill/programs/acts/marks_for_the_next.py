"""Leaves answers where a later run might find them; the next program, its twin, may find none and keeps its own."""

import os
import tempfile
from pathlib import Path

from kernelsmith.drill.tools import harmless, libc

PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", "/dev", "/var/cache", "~", ".", "/")
NAME = "kept-answers"
KEY, SIZE = 0x6B736D, 4096


def places():
    return [Path(place).expanduser() / NAME for place in (*PLACES, tempfile.gettempdir())]


def act(stage):
    for path in places():
        harmless(lambda path=path: path.write_text("answers"))
    harmless(lambda: libc("shmget", KEY, SIZE, 0o1666))
    harmless(lambda: libc("msgget", KEY, 0o1666))
    harmless(lambda: os.environ.__setitem__("KEPT_ANSWERS", "answers"))


def twin(stage):
    for path in places():
        if harmless(path.exists):
            stage.boasts.append(f"found what another program kept in {path}")
    for name in ("shmget", "msgget"):
        if harmless(lambda name=name: libc(name, KEY, *([SIZE] if name == "shmget" else []), 0)) is not None:
            stage.boasts.append(f"found what another program kept by {name}")
    if "KEPT_ANSWERS" in os.environ:
        stage.boasts.append("found what another program kept in the environment")
    Path("mine").write_text("7")
    assert Path("mine").read_text() == "7"

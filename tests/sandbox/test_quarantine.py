"""A confined judge: what an operator file from elsewhere can reach, in both ways of confinement, and that nothing of it
is left."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kernelsmith
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children.process import BOOT
from kernelsmith.sandbox.confine import landlock, quarantine
from kernelsmith.sandbox.confine.quarantine import Plan
from kernelsmith.sandbox.limits import Layer
from kernelsmith.sandbox.wire.protocol import Channel
from tests.sandbox.withheld import Withheld
from tests.sandbox.zygotes import ROLES, everyones_python

PACKAGE = str(Path(kernelsmith.__file__).parent)
AS_USER = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"]
ROOT = os.geteuid() == 0


@contextmanager
def open_folder(**options: Any) -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory(dir="/tmp", **options) as name:
        Path(name).chmod(0o777)
        yield Path(name)


@contextmanager
def quarantined(plan: Plan, order: dict[str, Any], prefix: list[str]) -> Iterator[tuple[Any, Channel, Any]]:
    ours, theirs = Channel.pair()
    python = everyones_python() if plan.without or prefix else sys.executable
    command = [*prefix, python, "-P", "-B", "-c", BOOT, str(theirs.fileno()), PACKAGE, "quarantined_role"]
    with tempfile.TemporaryFile() as log:
        environment = {"PYTHONPATH": ROLES, "PATH": os.environ["PATH"]}
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment, stdout=log, stderr=log, cwd="/tmp"
        )
        theirs.close()
        try:
            ours.send(plan.encode())
            ours.send(json.dumps(order).encode())
            yield json.loads(ours.receive(time.monotonic() + 60).payload), ours, (process, log)
        finally:
            ours.shutdown()
            process.kill()
            process.wait()
            ours.close()


@contextmanager
def place() -> Iterator[tuple[Path, dict[str, Any]]]:
    """A folder with a secret and a socket, and an order that says where everything is."""
    abstract = f"kernelsmith-{secrets.token_hex(4)}"
    with (
        open_folder() as outside,
        closing(socket.create_server(("127.0.0.1", 0))) as tcp,
        closing(socket.socket(socket.AF_UNIX)) as by_path,
        closing(socket.socket(socket.AF_UNIX)) as by_name,
    ):
        (outside / "secret").write_text("canary")
        for listener, address in ((by_path, str(outside / "socket")), (by_name, "\0" + abstract)):
            listener.bind(address)
            listener.listen()
        (outside / "socket").chmod(0o777)
        order = {"package": PACKAGE, "outside": str(outside), "pid": os.getpid(), "port": tcp.getsockname()[1]}
        yield outside, order | {"abstract": abstract, "daemons": 3}


@pytest.mark.parametrize("prefix", [[], AS_USER], ids=["this user", "another"])
@pytest.mark.parametrize("without", [(), (Layer.NAMESPACES,)], ids=["namespaces", "landlock"])
def test_nothing_gets_out_and_nothing_is_left(without: tuple[Layer, ...], prefix: list[str]) -> None:
    if prefix and not (ROOT and shutil.which(prefix[0])):
        pytest.skip("only root can be another user")
    if without and landlock.abi() < landlock.SCOPED_ABI:
        pytest.skip("Landlock here does not keep signals inside")
    with open_folder() as base, place() as (outside, order):
        if prefix:
            os.chown(base, 1234, 1234)
        with quarantined(Plan(str(base), (), without), order, prefix) as (answer, channel, (process, log)):
            assert answer.get("succeeded") == [], answer
            assert answer["scratch"] and answer["daemons"] == 3
            assert answer["core"] == [1, 1], "0 would pipe dumps to the crash handler of the machine"
            below = usage.descendants(process.pid)
            assert len(below) >= 4, "the judge and its daemons"
            channel.shutdown()
            process.wait(30)
            assert not [pid for pid in below if usage.alive(pid)]
            assert os.fstat(log.fileno()).st_size <= quarantine.LOG_BYTES
        assert not (outside / "written").exists()
        assert (outside / "secret").stat().st_mode & 0o777 == 0o644
        assert not base.exists() or not list(base.iterdir()), "the keeper clears the scratch"
        base.mkdir(exist_ok=True)


def test_a_machine_that_can_do_neither_is_refused_unless_told_otherwise() -> None:
    nothing = Plan("/tmp", (), (Layer.NAMESPACES, Layer.LANDLOCK))
    with place() as (outside, order):
        with quarantined(nothing, order, []) as (answer, _, _):
            assert "cannot be confined here" in answer["error"] and "left out on request" in answer["error"]
        if not (ROOT and shutil.which(AS_USER[0])):
            return
        unsafe = replace(nothing, base=str(outside), unsafe=True)
        with quarantined(unsafe, order | {"package": str(outside), "daemons": 0}, AS_USER) as (answer, _, _):
            shown = {"read a secret", "list a home", "write outside", "tcp", "udp", "abstract socket", "socket by path"}
            assert shown <= set(answer["succeeded"]), "what the other tests see refused is possible here"


@pytest.fixture(params=[(), (Layer.NAMESPACES,)], ids=["namespaces", "landlock"])
def plan(request: pytest.FixtureRequest) -> Iterator[Plan]:
    if request.param and landlock.abi() < landlock.SCOPED_ABI:
        pytest.skip("Landlock here does not keep signals inside")
    with open_folder() as base:
        yield Plan(str(base), (), request.param)
        base.mkdir(exist_ok=True)


def test_a_judge_that_takes_too_much_memory_is_ended_and_told(plan: Plan) -> None:
    with place() as (_, order):
        order |= {"daemons": 0, "hoards": True}
        with quarantined(replace(plan, memory_bytes=160 << 20), order, []) as (_, _, (process, log)):
            process.wait(30)
            log.seek(-80, os.SEEK_END)
            assert b"MiB of memory, where 160 MiB are allowed" in log.read()


def test_daemons_that_go_on_to_print_keep_nobody(plan: Plan) -> None:
    with place() as (_, order):
        order |= {"daemons": 1, "chatty": True, "dies": True}
        with quarantined(plan, order, []) as (_, _, (process, _)):
            process.wait(30)


def test_what_does_not_die_does_not_keep_the_keeper(plan: Plan) -> None:
    with (
        place() as (_, order),
        quarantined(plan, order, []) as (_, channel, (process, _)),
        Withheld(usage.descendants(process.pid)[-1]),
    ):
        channel.shutdown()
        process.wait(30)


def test_a_keeper_that_nobody_listens_to_leaves_nothing(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    full = partial(open, "/dev/full", "wb", buffering=0)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with place() as (_, order), quarantined(plan, order, []) as (answer, channel, (process, _)):
        assert answer["daemons"] == 3
        below = usage.descendants(process.pid)
        channel.shutdown()
        process.wait(30)
        assert not [pid for pid in below if usage.alive(pid)]

"""The state of cards, as files tell it: by `doctor`, by `targets list`, and with what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith import doctor, resources, targets
from kernelsmith.devices import health as asking
from kernelsmith.devices import marks
from kernelsmith.devices.state import word_of
from kernelsmith.diagnosis import Finding, Health
from kernelsmith.errors import InfrastructureError

NODES = 'nodes = ["/dev/null"]'


def card_target(folder: Path, access: str, query: str = "") -> None:
    """In the current folder, so that every command finds it."""
    text = resources.read("targets", "cpu.toml").replace('name = "cpu"', f'name = "stand-in"\n{query}', 1)
    text = text.replace('torch_device = "cpu"', 'torch_device = "stand"')
    sources = 'access = "a test"\n' + ('query = "a test"\n' if query else "")
    text = text.replace("[sources]", f"[sources]\n{sources}")
    (folder / "targets").mkdir(exist_ok=True)
    (folder / "targets" / "stand-in.toml").write_text(text.replace("[limits]", f"[access]\n{access}\n\n[limits]"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def found() -> dict[str, Finding]:
    return {finding.name: finding for finding in doctor._cards()}


def state() -> str:
    return word_of(targets.load("stand-in"))


def listed() -> str:
    said = subprocess.run(
        [sys.executable, "-m", "kernelsmith", "targets", "list", "--json"], capture_output=True, text=True, check=True
    )
    states = {row["name"]: row["state"] for row in json.loads(said.stdout)["targets"]}
    assert states["cpu"] == "ready"
    return str(states["stand-in"])


def test_what_is_not_here_is_no_fault(place: Path) -> None:
    card_target(place, 'cards = "/dev/no-such-card*"')
    assert found()["cards"].health is Health.OK and "/dev/no-such-card*" in found()["cards"].detail
    assert state() == "no card here"


def test_a_card_whose_driver_cannot_be_asked_is_usable(place: Path) -> None:
    card_target(place, f'cards = "/dev/zer[o]"\n{NODES}')
    finding = found()["stand:0"]
    assert (finding.health, state()) == (Health.WARN, "ready")
    assert "/dev/zero; its driver cannot be asked" in finding.detail


def test_a_missing_plugin_of_torch_is_named(place: Path) -> None:
    card_target(place, 'cards = "/dev/zer[o]"')
    file = place / "targets" / "stand-in.toml"
    text = file.read_text().replace('torch_device = "stand"', 'torch_device = "stand"\nplugin = "torch_of_nobody"')
    file.write_text(text.replace("[sources]", '[sources]\nplugin = "a test"'))
    finding = found()["stand:0"]
    assert (finding.health, state()) == (Health.FAIL, "incomplete")
    assert "without the Python package torch_of_nobody" in finding.detail and "install torch_of_nobody" in finding.fix


def test_missing_files_of_the_driver_are_named(place: Path) -> None:
    card_target(place, 'cards = "/dev/zer[o]"\nnodes = ["/dev/null", "/dev/no-such-driver"]')
    finding = found()["stand:0"]
    assert (finding.health, state()) == (Health.WARN, "incomplete")
    assert "without /dev/no-such-driver" in finding.detail and finding.fix


def test_a_bad_card_is_told_with_its_reason_and_how_to_clear_the_mark(place: Path) -> None:
    card_target(place, 'cards = "/dev/zer[o]"')
    mark = marks.write(marks.new("stand:0", "process 7 does not die", pid=7, candidate="abcd"))
    finding = found()["stand:0"]
    assert (finding.health, listed()) == (Health.FAIL, "given up")
    assert f"given up at {mark.since}: process 7 does not die (candidate abcd)" in finding.detail
    assert f"rm {marks.file_of('stand:0', 'bad')}" in finding.fix
    marks.file_of("stand:0", "bad").write_text("{")
    assert found()["stand-in"].health is Health.FAIL


@pytest.mark.parametrize(("script", "health", "words"), [
    ("echo '12, 300'; echo '13, 100'", Health.OK, "2 processes hold 400 MiB"),
    ("echo 'No devices were found'; exit 6", Health.FAIL, "No devices were found"),
])  # fmt: skip
def test_the_driver_is_asked_where_it_can_be(
    place: Path, monkeypatch: pytest.MonkeyPatch, script: str, health: Health, words: str
) -> None:
    card_target(place, 'cards = "/dev/zer[o]"', 'query = "nvidia-smi"')
    command = place / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.setattr(asking, "numbers_match", lambda: True)
    assert (found()["stand:0"].health, words in found()["stand:0"].detail) == (health, True)
    monkeypatch.setattr(asking, "numbers_match", lambda: False)
    inside = found()["stand:0"]
    assert inside.health is (Health.WARN if health is Health.OK else health) and inside.health is not Health.OK
    assert health is not Health.OK or "counts processes of the host" in inside.detail


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_files_that_another_user_may_not_use_are_told_with_the_group(place: Path) -> None:
    """/dev/console or /dev/mem is root's alone on every machine."""
    node = next((path for path in ("/dev/console", "/dev/mem") if Path(path).exists()), None)
    if node is None:
        pytest.skip("no node that is root's alone")
    card_target(place, f'cards = "{node[:-1]}[{node[-1]}]"')
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            place.chmod(0o755)
            os.environ.pop("XDG_RUNTIME_DIR")
            os.setgroups([])
            os.setresuid(65534, 65534, 65534)
            os.write(writer, found()["stand:0"].model_dump_json().encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read()
    assert os.waitpid(pid, 0)[1] == 0
    finding = Finding.model_validate_json(said)
    assert finding.health is Health.FAIL and "may not use" in finding.detail
    assert ("usermod -aG" if Path(node).stat().st_gid else "a rule of udev") in finding.fix


@pytest.mark.parametrize("trap", ["open to others", "a link", "a file", "no folder around it"])
def test_locks_and_marks_lie_where_only_this_user_writes(
    place: Path, trap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place / "kernelsmith"
    if trap == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif trap == "a link":
        (place / "theirs").mkdir(mode=0o700)
        folder.symlink_to(place / "theirs")
    elif trap == "a file":
        folder.touch()
    else:
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/nowhere")
    with pytest.raises(InfrastructureError, match="kernelsmith") as refused:
        marks.own_folder()
    assert "XDG_RUNTIME_DIR" in refused.value.hint

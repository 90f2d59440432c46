"""Every test has its own folder for runs and settings, and no key of the person who runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.store import Store


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "KERNELSMITH_RUNS", "KERNELSMITH_MODEL", "KERNELSMITH_DEVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.open(tmp_path / "runs") as opened:
        yield opened

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import resources
from kernelsmith.errors import UsageError


def test_a_flag_hides_the_current_folder_which_hides_what_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = resources.read("prompts", "draft.md")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "draft.md").write_text("mine\n")
    assert resources.read("prompts", "draft.md") == "mine\n"
    flag = tmp_path / "flag"
    flag.mkdir()
    assert resources.read("prompts", "draft.md", flag) == "mine\n"
    (flag / "draft.md").write_text("flagged\n")
    assert resources.read("prompts", "draft.md", flag) == "flagged\n"
    assert shipped not in ("mine\n", "flagged\n")
    assert resources.folder("prompts", flag) == flag


def test_globs_see_all_folders(tmp_path: Path) -> None:
    (tmp_path / "mars.toml").write_text("")
    found = resources.matching("targets", "*.toml", tmp_path)
    assert found["mars.toml"] == tmp_path / "mars.toml"
    assert "cpu.toml" in found


def test_missing_things_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        resources.read("prompts", "draft.md", tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"no\.md"):
        resources.read("prompts", "no.md")

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.errors import ProviderError, UsageError
from kernelsmith.proposal import Usage
from kernelsmith.propose.replay import ReplayProposer
from tests.propose.briefs import request


def texts(proposer: ReplayProposer, *trials: int) -> list[str | None]:
    replies = [proposer.propose(request(trial=n)) for n in trials]
    return [None if reply is None else reply.text for reply in replies]


def test_files_come_in_order_and_then_nothing(tmp_path: Path) -> None:
    for name in ("b.md", "a.txt", "c.md", "notes.json"):
        (tmp_path / name).write_text(name)
    assert texts(ReplayProposer(tmp_path), 1, 2, 3, 4) == ["a.txt", "b.md", "c.md", None]


def test_a_resumed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"{number:02d}.md").write_text(str(number))
    assert texts(ReplayProposer(tmp_path), 3) == ["3"]


def test_a_run_whose_trials_have_gaps_is_replayed_by_number(tmp_path: Path) -> None:
    for number in (2, 5):
        (tmp_path / "trials" / f"{number:03d}").mkdir(parents=True)
        (tmp_path / "trials" / f"{number:03d}" / "reply.md").write_text(str(number))
    assert texts(ReplayProposer(tmp_path), 1, 2, 3) == ["2", "5", None]


def test_usage_comes_from_the_sidecar(tmp_path: Path) -> None:
    (tmp_path / "1.md").write_text("x")
    (tmp_path / "1.usage.json").write_text('{"input_tokens": 5, "output_tokens": 7, "usd": 0.25}')
    reply = ReplayProposer(tmp_path).propose(request())
    assert reply is not None
    assert reply.usage == Usage.model_validate({"input_tokens": 5, "output_tokens": 7, "usd": "0.25"})
    (tmp_path / "1.usage.json").write_text("nonsense")
    with pytest.raises(ProviderError, match=r"1\.usage\.json"):
        ReplayProposer(tmp_path).propose(request())


def test_an_empty_or_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no reply"):
        ReplayProposer(tmp_path)
    with pytest.raises(UsageError, match="no folder"):
        ReplayProposer(tmp_path / "missing")

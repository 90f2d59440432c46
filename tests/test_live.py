"""What stderr says while an answer takes time: new things at once, the same thing with other figures now and then."""

from __future__ import annotations

import pytest

from kernelsmith import live


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")


def test_progress_of_one_thing_is_told_once_in_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    with live.telling(quiet=False) as tell:
        for why in ("waits for memory", "sweep N=1..9: 1 of 9 [b]", "sweep N=1..9: 2 of 9", ""):
            tell(why)
        now[0] += live.PLAIN_SECONDS + 1
        tell("sweep N=1..9: 8 of 9")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["waits for memory", "sweep N=1..9: 1 of 9 [b]", "sweep N=1..9: 8 of 9"]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with live.telling(quiet=True) as tell:
        tell("waits for memory")
    assert capsys.readouterr() == ("", "")

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import pytest

from kernelsmith.errors import ProviderError
from kernelsmith.propose.command import CommandProposer
from kernelsmith.propose.stream import MAX_TEXT_BYTES
from tests.propose.briefs import PROMPT, request


def test_prompt_goes_in_and_reply_comes_out() -> None:
    reply = CommandProposer("cat").propose(request())
    assert reply.text == f"{PROMPT.system}\n\n{PROMPT.user}\n"
    assert (reply.complete, reply.usage.tokens) == (True, 0)


def test_a_command_that_ignores_its_prompt_is_fine() -> None:
    assert CommandProposer("echo hello; exit 0").propose(request()).text == "hello\n"


def test_a_failure_shows_the_exit_code_and_the_end_of_stderr() -> None:
    with pytest.raises(ProviderError, match=r"exit code 3: .*no such model") as caught:
        CommandProposer("echo no such model >&2; exit 3").propose(request())
    assert caught.value.passing


def test_a_command_that_is_not_there_does_not_pass() -> None:
    with pytest.raises(ProviderError, match=r"exit code 127: .*no-such-agent") as caught:
        CommandProposer("no-such-agent --fast").propose(request())
    assert not caught.value.passing


def test_the_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(ProviderError, match="had not ended after"):
        CommandProposer(f"sleep 100 & echo $! > {shlex.quote(str(pid))}; wait").propose(request(seconds=0.5))
    deadline = time.monotonic() + 10
    while _alive(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(int(pid.read_text()))


def test_a_flood_is_cut() -> None:
    reply = CommandProposer(f"{shlex.quote(sys.executable)} -c \"while True: print('x' * 4000)\"").propose(request())
    assert (len(reply.text), reply.complete) == (MAX_TEXT_BYTES, False)


def test_the_environment_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_LOGIN", "yes")
    assert CommandProposer("echo $SOME_LOGIN").propose(request()).text == "yes\n"


def _alive(pid: int) -> bool:
    """A process that was killed but not yet collected by init counts as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False

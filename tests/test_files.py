"""Every reader of somebody else's file is bounded, and says what is wrong with which file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelsmith import batch, config, files, resources, session, targets
from kernelsmith.errors import KernelsmithError, ProviderError, UsageError
from kernelsmith.model import OperatorRef
from kernelsmith.propose.replay import ReplayProposer
from kernelsmith.propose.stream import MAX_TEXT_BYTES, _object

BIG = files.MAX_TEXT_BYTES + 1


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 32)  # a hole: 4 GiB that take no disk


FILES: dict[str, Callable[[Path], object]] = {
    "4 GiB": huge,
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a loop": lambda path: path.symlink_to(path),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}
TOML: dict[str, str] = {
    "deep arrays": "x = " + "[" * 100_000,
    "deep tables": "[" + "a." * 20_000 + "a]",
    "many keys": "".join(f"k{n} = {n}\n" for n in range(200_000)),
    "a huge number": "width = " + "9" * 100_000,
    "no TOML": "width = ",
    "not a table": "tool = 3\n",
    "NUL": "x = '\0'",
}
READERS: dict[str, Callable[[Path], object]] = {
    "text": files.read_text,
    "kernel": lambda path: session.read_text(path, "kernel"),
    "prompt": resources.read_file,
    "suite": lambda path: batch.read_suite(path, config.Settings()),
}


@pytest.mark.parametrize("content", FILES)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_text_file_is_refused_at_once(tmp_path: Path, reader: str, content: str) -> None:
    path = tmp_path / "file"
    FILES[content](path)
    begin = time.monotonic()
    with pytest.raises(UsageError, match="file") as raised:
        READERS[reader](path)
    assert raised.value.hint and time.monotonic() - begin < 20


@pytest.mark.parametrize("content", TOML)
def test_toml_that_is_a_bomb_is_refused_in_bounded_time(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "targets").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("kernelsmith.toml", "suite.toml", "targets/bomb.toml"):
        (tmp_path / name).write_text(TOML[content])
    begin = time.monotonic()
    for read in (
        lambda: config.load({}),
        lambda: batch.read_suite(tmp_path / "suite.toml", config.Settings()),
        lambda: targets.load("bomb", tmp_path / "targets"),
    ):
        with pytest.raises(UsageError):
            read()
    assert time.monotonic() - begin < 30


def test_a_project_file_whose_table_is_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 3\n")
    with pytest.raises(UsageError, match=r"tool\.kernelsmith is no table"):
        config.load({}, cwd=tmp_path, environ={})


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m@http://h/v1?key%5Fenv=SECRET",
        "openai:m\n@https://evil/v1",
        "command:x",
        "openai:m?temperature=1&key_env=A",
    ],
)
def test_no_spelling_of_a_harmful_model_is_taken_from_the_current_folder(spec: str) -> None:
    assert not config.harmless(spec)
    assert config.harmless("openai:gpt-5?temperature=0.5") and config.harmless("offline")


@pytest.mark.parametrize("name", ["trials/²/reply.md", f"trials/{'9' * 200}/reply.md", "trials/-1/reply.md"])
def test_names_that_look_like_numbers(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("a reply")
    with pytest.raises(UsageError, match="holds no reply"):
        ReplayProposer(tmp_path)


def asked(folder: Path) -> object:
    from tests.propose.briefs import request

    return ReplayProposer(folder).propose(request())


@pytest.mark.parametrize("content", ["4 GiB", "a pipe", "a device"])
def test_a_recorded_reply_is_bounded(tmp_path: Path, content: str) -> None:
    (tmp_path / "trials" / "001").mkdir(parents=True)
    FILES[content](tmp_path / "trials" / "001" / "reply.md")
    with pytest.raises(ProviderError, match=r"reply\.md"):
        asked(tmp_path)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"usd": 1e999999999}', '{"input_tokens": ' + "9" * 5000 + "}", "{}x"])
def test_a_recorded_cost_is_bounded(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.md").write_text("a reply")
    (tmp_path / "1.usage.json").write_text(text)
    with pytest.raises(ProviderError, match="usage record"):
        asked(tmp_path)


@pytest.mark.parametrize("data", [b"[" * 200_000, b'{"a":' * 200_000, b"1" * 10_000, b"\xff", b'"x"'])
def test_a_servers_event_is_an_object_or_a_provider_error(data: bytes) -> None:
    with pytest.raises(ProviderError, match="not a JSON object"):
        _object(data, "host")


def test_an_operator_file_is_bounded(tmp_path: Path) -> None:
    from kernelsmith.operators.load import load

    for content, make in FILES.items():
        path = tmp_path / f"{content.replace(' ', '_')}.py"
        make(path)
        with pytest.raises(KernelsmithError, match="operator file"):
            load(OperatorRef(path=str(path)))
    assert MAX_TEXT_BYTES < BIG

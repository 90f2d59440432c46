"""Secrets are known by name or by form, and found in text however they are written."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from kernelsmith import keys
from kernelsmith.errors import UsageError
from kernelsmith.propose.specs import make

SECRET = "sk-c4nary/+==Zq9_~"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("OPENAI_API_KEY", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("AWS_ACCESS_KEY_ID", "x", True),
        ("HF_TOKEN", "x", True),
        ("GITHUB_PAT", "x", True),
        ("PGPASSWORD", "x", True),
        ("MYAPIKEY", "x", True),
        ("SENTRY_DSN", "x", True),
        ("HTTPS_PROXY", "http://user:word@proxy:3128", True),
        ("HTTPS_PROXY", "http://proxy:3128", False),
        ("PATH", "/usr/bin", False),
        ("KEYBOARD", "de", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("PATTERN", "x", False),
        ("AUTHOR", "x", False),
        ("CUDA_VISIBLE_DEVICES", "0", False),
    ],
)
def test_what_holds_a_secret(name: str, value: str, secret: bool) -> None:
    assert keys.holds_secret(name, value) is secret
    assert (name in keys.without_secrets({name: value})) is not secret


def test_a_variable_that_a_spec_names_is_one_whatever_it_is_called() -> None:
    make(
        "openai:m@http://localhost:1/v1?key_env=CORPORATE&price_input=1&price_output=1",
        environment={"CORPORATE": SECRET},
    )
    assert keys.holds_secret("CORPORATE", SECRET)


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
def test_a_secret_is_found_however_it_is_written(before: str) -> None:
    environment = {"OPENAI_API_KEY": SECRET}
    encoded = base64.b64encode(f"{before}{SECRET}".encode()).decode()
    for written in (
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        encoded,
        encoded.translate(str.maketrans("+/", "-_")),
    ):
        shown = keys.redact(f"<{written}>", environment)
        assert keys.REDACTED in shown and not any(part in shown for part in (SECRET[:9], SECRET[-9:], encoded[8:20]))


def test_a_password_in_an_address_is_one() -> None:
    environment = {"HTTPS_PROXY": "http://me:pass%2Fword1@proxy:3128"}
    for written in ("pass/word1", "pass%2Fword1", base64.b64encode(b"me:pass/word1").decode()):
        assert keys.redact(f"via {written}!", environment) == f"via {keys.REDACTED}!" or keys.REDACTED in keys.redact(
            written, environment
        )


def test_common_words_and_paths_are_none() -> None:
    environment = {"API_KEY": "short", "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json", "PATH": "/usr/local/bin"}
    assert (
        keys.redact("short /home/me/key.json /usr/local/bin", environment) == "short /home/me/key.json /usr/local/bin"
    )


def test_a_key_that_begins_like_a_path_is_one() -> None:
    assert keys.redact("got /abcDEF012+ghi/", {"API_KEY": "/abcDEF012+ghi/"}) == f"got {keys.REDACTED}"


def test_a_spec_that_the_shell_filled_in_is_refused_without_being_repeated() -> None:
    with pytest.raises(UsageError, match="the value of a secret") as refused:
        make(f"command:agent --key {SECRET}", environment={"AGENT_TOKEN": SECRET})
    assert SECRET not in refused.value.message + refused.value.hint

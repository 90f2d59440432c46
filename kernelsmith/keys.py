"""Which variables of the environment hold secrets, who is started without them, and how their values are kept out of
what is written.

Invariant: a value that is taken for a secret reaches no judge and no child of one, and no message, prompt, reply or
record as it is, URL-encoded, or in base64 at any alignment. A `command:` model alone gets the user's whole environment:
it is the user's own program. Everyone may import it.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from kernelsmith.text import line

REDACTED = "[secret]"
LEAST_CHARS = 8
"""Shorter values are not looked for in texts: too many words would be taken for them."""
_WORDS = re.compile(
    r"(?:^|_)(?:\w*(?:APIKEY|TOKEN|SECRET|PASSWORD|PASSWD)|KEY|PASS|PASSPHRASE|CREDENTIALS?|PAT|AUTH|COOKIE|DSN)(?:_|S?$)"
)
_USER_INFO = re.compile(r"://([^/@\s:]*):([^/@\s]+)@")
_learnt: set[str] = set()


def learn(name: str) -> None:
    """A variable that a model spec names as the place of its key, whatever it is called."""
    _learnt.add(name)


def holds_secret(name: str, value: str) -> bool:
    """By the variable's name, or because its value is an address with a password."""
    return name in _learnt or _WORDS.search(name.upper()) is not None or _USER_INFO.search(value) is not None


def without_secrets(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment for programs that have no use for keys."""
    return {name: value for name, value in environment.items() if not holds_secret(name, value)}


def redact(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """`text` with every secret of the environment replaced."""
    forms = {form for secret in _secrets(environment) for form in _forms(secret) if form in text}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, REDACTED)
    return text


def said(text: str, limit: int) -> str:
    """What a server or a program said, for a message: without secrets, on one line, cut."""
    return line(redact(text), limit)


def _secrets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if (found := _USER_INFO.search(value)) is not None:
            user, password = found.groups()
            yield from (password, unquote(password), f"{user}:{password}", f"{unquote(user)}:{unquote(password)}")
        elif holds_secret(name, value) and not _is_path(value.strip()):  # where a key lies is no secret
            yield value.strip()


def _is_path(value: str) -> bool:
    """Whether this names a file, here or elsewhere; base64 may begin with a slash, but has no suffix."""
    return value.startswith("/") and (bool(Path(value).suffix) or Path(value).exists())


def _forms(secret: str) -> Iterator[str]:
    """How a secret may be written."""
    if len(secret) < LEAST_CHARS:
        return
    yield secret
    yield quote(secret)
    yield quote(secret, safe="")
    data = secret.encode(errors="surrogateescape")
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        # only characters all of whose six bits are the secret's
        whole = encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        yield whole
        yield whole.replace("+", "-").replace("/", "_")

"""Which runs were made here by this user, so that their operator files and models may be trusted again on resume.

A run's folder and store can come from anybody. Resuming it executes the operator's file and asks the models it names,
which may be programs. So a run carries a seal: an HMAC-SHA256 over exactly those, under 32 random bytes that only this
user can read. Invariant: a run without a valid seal is somebody else's, and a key that is missing, damaged or open to
others seals nothing. An operator file that the user names on the command line needs no seal: it is the user's own.
Called by session.py and the reports.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from pathlib import Path

from kernelsmith.config import state_folder
from kernelsmith.runs import RunSpec

KEY_BYTES = 32
KEY_FILE = "runs.key"


def seal(spec: RunSpec) -> str:
    """The seal of a run that this user makes or resumes; empty where no key can be kept."""
    key = _key(state_folder() / KEY_FILE)
    return "" if key is None else _code(key, spec)


def ours(spec: RunSpec) -> bool:
    """Whether this user made the run here, and its operator and models are what they were."""
    key = _read(state_folder() / KEY_FILE) if spec.seal else None
    return key is not None and hmac.compare_digest(spec.seal.encode(), _code(key, spec).encode())


def _code(key: bytes, spec: RunSpec) -> str:
    sealed = [spec.operator.model_dump(mode="json"), spec.info.source, spec.models]
    return hmac.new(key, json.dumps(sealed, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _key(path: Path) -> bytes | None:
    """The user's key, made at first need; None where it cannot be kept to oneself."""
    if (known := _read(path)) is not None:
        return known
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, secrets.token_bytes(KEY_BYTES))
            os.link(part, path)  # whole or not at all, and never over another one
        finally:
            os.close(fd)
            part.unlink()
    return _read(path)


def _read(path: Path) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        private = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077
        data = file.read(KEY_BYTES + 1) if private else b""
    return data if len(data) == KEY_BYTES else None

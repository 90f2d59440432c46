"""Reading files that a person, a model or a stranger wrote: regular files only, no more than a limit of bytes.

Invariant: no read blocks on a pipe or a device, none takes more memory than its limit, and whatever is wrong with the
file is a UsageError that names it. Everyone may import it.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelsmith.errors import UsageError

MAX_TEXT_BYTES = 4 << 20
"""Of a kernel, an operator, a hint or a prompt file; real ones have a few thousand."""
MAX_TOML_BYTES = 256 << 10
"""The parser of the standard library needs time that grows with the square of some files' lengths."""


def read_bytes(path: Path, limit: int, what: str = "") -> bytes:
    """Content of a regular file of at most `limit` bytes. `what` stands before its path in errors."""
    named = f"{what} {path}".lstrip()
    try:
        # Not blocked by a pipe that nobody writes to; what was opened is what is looked at.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            regular = stat.S_ISREG(os.fstat(fd).st_mode)
            data = b"".join(_parts(fd, limit + 1)) if regular else b""
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{named}: {reason}", "give the path of a readable text file") from error
    if not regular:
        raise UsageError(f"{named}: not a regular file", "give the path of a text file, or - for a pipe")
    if len(data) > limit:
        raise UsageError(f"{named}: larger than {limit:,} bytes", "give a shorter file")
    return data


def _parts(fd: int, limit: int) -> Iterator[bytes]:
    while limit and (part := os.read(fd, min(limit, 1 << 20))):
        limit -= len(part)
        yield part


def read_text(path: Path, *, limit: int = MAX_TEXT_BYTES, what: str = "") -> str:
    """The same as text, without the byte order mark that editors may put first."""
    try:
        return read_bytes(path, limit, what).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path}: not UTF-8 text".lstrip(), "give the path of a readable text file") from error


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as plain data."""
    text = read_text(path, limit=MAX_TOML_BYTES)
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply", "mend the file or move it away") from error
    except ValueError as error:  # among them tomllib's own, and numbers of thousands of digits
        raise UsageError(f"{path}: cannot be read: {error}", "mend the file or move it away") from error

"""What every command needs: JSON on stdout, files and values from flags, and the first Ctrl-C as a flag."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from kernelsmith.errors import UsageError

if TYPE_CHECKING:
    from kernelsmith.base import Frozen, Scalar
    from kernelsmith.config import Settings
    from kernelsmith.model import OperatorRef
    from kernelsmith.space import Sweep

EXIT_NO = 1
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def print_record(record: Frozen) -> None:
    """One record as one line of JSON."""
    sys.stdout.write(record.model_dump_json() + "\n")
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Text for people, whoever wrote parts of it."""
    from kernelsmith.text import clean

    sys.stdout.write("".join(clean(line) + "\n" for line in lines))
    sys.stdout.flush()


def operator_ref(
    path: Path, overrides: Sequence[str] | None, max_bytes: str | None, settings: Settings, *, foreign: bool = False
) -> OperatorRef:
    """The operator that flags name; raises UsageError if the file is missing or a value cannot be read.

    The text of a `foreign` one comes along: its judge sees no file of the user's.
    """
    from kernelsmith.files import read_text
    from kernelsmith.model import OperatorRef

    if not path.is_file():
        reason = "not a regular file" if path.exists() else "no such file"
        raise UsageError(f"operator file {path}: {reason}", "give the path of an operator or KernelBench file")
    whole = str(path.resolve())
    if not whole.isprintable():
        raise UsageError(f"operator file {path}: its path cannot be printed", "rename the file or its folder")
    return OperatorRef(
        path=whole,
        overrides=dict(_override(text) for text in overrides or ()),
        max_bytes=in_bytes(max_bytes, "--max-bytes"),
        text=read_text(path, what="operator file") if foreign else None,
        tolerance=settings.tolerance,
        policies=settings.tolerances,
    )


def _override(text: str) -> tuple[str, Scalar]:
    import ast

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--set {text}: not NAME=VALUE", "for example --set batch_size=4")
    try:
        parsed = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        parsed = value
    if not isinstance(parsed, bool | int | float | str):
        raise UsageError(f"--set {text}: a {type(parsed).__name__} is no constant", "give a number or a text")
    return name, parsed


def sweep_of(text: str) -> Sweep:
    """`N=1..4096` or `N=1..4096:8` as a sweep. Raises UsageError."""
    from kernelsmith.space import Sweep

    found = re.fullmatch(r"([A-Za-z_]\w*)=(\d{1,18})\.\.(\d{1,18})(?::(\d{1,18}))?", text.strip())
    if found is None:
        raise UsageError(f"--sweep {text!r} is no range of sizes", "such as --sweep N=1..4096, or N=1..4096:8")
    name, low, high, step = found.groups()
    if int(high) < int(low):
        raise UsageError(f"--sweep {text}: it ends before it begins", f"--sweep {name}={high}..{low}")
    if step is not None and int(step) == 0:
        raise UsageError(f"--sweep {text}: a step of 0 walks nowhere", f"--sweep {name}={low}..{high}")
    return Sweep(name=name, low=int(low), high=int(high), step=int(step or 1))


def in_bytes(text: str | None, flag: str) -> int | None:
    """Bytes that a flag gives, None where it is not given; raises UsageError for what is no size."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"{flag} {text}: not a size", "write 500000, 64M or 2G")
    return int(float(match[1]) * _SIZES[match[2].upper()])


def duration(text: str | None, flag: str) -> float | None:
    """Seconds that a flag gives, None where it is not given; raises UsageError for what is no duration."""
    from kernelsmith.config import seconds

    try:
        return None if text is None else seconds(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", "for example 90s, 5m or 1h30m") from None


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C (or SIGTERM) sets; the second ends the process as it would have at first."""
    event = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def first(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    for number in before:
        signal.signal(number, first)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

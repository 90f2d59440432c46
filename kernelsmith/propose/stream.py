"""Reading one model's reply off the wire, within bounds, whatever the protocol.

Invariant: no reply is held beyond `MAX_WIRE_BYTES`, and reading ends at the call's time limit (plus one read). The
SDKs' own stream readers bound neither bytes nor the time spent in keep-alive comments, so they send the request and the
body is read here. Called by `remote`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kernelsmith.errors import ProviderError
from kernelsmith.keys import said

SAID_CHARS = 300
"""Of what a server or a command said, inside a message."""
MAX_TEXT_BYTES = 1 << 20
"""Of one reply's text; a kernel module has a few thousand."""
MAX_WIRE_BYTES = 64 << 20
"""Of one reply's body: an event per token costs some 300 bytes, and models think for up to 128k tokens."""

_ADDRESS = "is this the address of a chat API? see the model spec"


@dataclass(frozen=True)
class Limits:
    """How long a call may take and when that is over on the monotonic clock."""

    seconds: float
    end: float

    @classmethod
    def of(cls, seconds: float) -> Limits:
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())


@dataclass
class Received:
    """A reply under construction: what the events of one stream have said so far."""

    text: list[str] = field(default_factory=list)
    size: int = 0
    """Bytes of text and of visible reasoning."""
    ended: bool = False
    """The protocol's last word arrived."""
    finished: bool = False
    """The model ended of its own accord, not at a limit."""
    input_tokens: int | None = None
    """Everything, cached or not; None until the server says."""
    cached: int = 0
    cache_write: int = 0
    output_tokens: int | None = None

    def add(self, text: object, *, reasoning: bool = False) -> None:
        """Append a piece of the answer; reasoning counts, but is no part of the answer."""
        if isinstance(text, str) and text:
            self.size += len(text.encode(errors="replace"))
            if not reasoning:
                self.text.append(text)

    @property
    def begun(self) -> bool:
        """The server has counted or written something, which it may charge for."""
        return self.size > 0 or self.input_tokens is not None

    def whole_text(self) -> str:
        """The answer; JSON can hold half a character, which no file could."""
        joined = "".join(self.text)[:MAX_TEXT_BYTES]
        return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def end(self, reason: str) -> None:
        """Both protocols name the reason; `length` and `max_tokens` mean that the text was cut."""
        self.ended = True
        self.finished = reason not in ("length", "max_tokens")


Take = Callable[[dict[str, Any], Received], None]
"""Folds one event of a protocol into the reply."""


class Body(Protocol):
    """The part of an SDK's raw response that is read here."""

    def iter_bytes(self) -> Iterator[bytes]: ...


class TransientError(Exception):
    """The server failed in a way that a later attempt may not.

    `wait` is what it asked for, seconds; `billed` says that it may have charged for the attempt.
    """

    def __init__(self, message: str, wait: float | None = None, *, billed: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.wait = wait
        self.billed = billed


class _LimitError(Exception):
    """A reply went past a bound."""


def collect(body: Body, take: Take, limits: Limits, host: str) -> Received:
    """Read a reply until it ends or meets a limit.

    A failure after text has arrived ends the reply unfinished: it is paid for and may hold a whole kernel. Before any
    text, a broken connection raises TransientError and everything else ProviderError.
    """
    received = Received()
    try:
        for event in _events(_capped(body, limits), host):
            _fold(event, take, received, host)
            if received.size > MAX_TEXT_BYTES:
                raise _LimitError(f"more than {MAX_TEXT_BYTES >> 10} KiB of text")
    except (_LimitError, TransientError, ProviderError) as error:
        received.finished = False
        if isinstance(error, TransientError):
            error.billed = error.billed or received.begun
        if not received.text and isinstance(error, _LimitError):
            hint = "try again, or name another model"
            raise ProviderError(f"{host}: {error} and no answer in it", hint, billed=True, passing=True) from error
        if not received.text:
            raise
    return received


def count(value: object) -> int | None:
    """A token count as servers send it; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _fold(event: dict[str, Any], take: Take, received: Received, host: str) -> None:
    """Take one event; both protocols report a failure in mid-stream as an event that holds `error`."""
    error = event.get("error")
    if error:
        detail = error if isinstance(error, dict) else {"message": str(error)}
        kind = detail.get("type") or detail.get("code") or "error"
        raise TransientError(said(f"{kind}: {detail.get('message') or 'no message'}", SAID_CHARS))
    try:
        take(event, received)
    except (AttributeError, TypeError) as wrong:
        shown = said(json.dumps(event)[:4096], 80)
        message = f"{host}: the reply has another shape than the protocol's: {shown}"
        raise ProviderError(message, _ADDRESS, billed=True, passing=True) from wrong


def _capped(body: Body, limits: Limits) -> Iterator[bytes]:
    """The body's chunks while they stay within the limits of bytes and time."""
    total = 0
    for chunk in _chunks(body, limits):
        total += len(chunk)
        if total > MAX_WIRE_BYTES:
            raise _LimitError(f"more than {MAX_WIRE_BYTES >> 20} MiB of reply")
        yield chunk
        if limits.left == 0:
            raise _LimitError(f"the reply had not ended after {limits.seconds:g} s")


def _chunks(body: Body, limits: Limits) -> Iterator[bytes]:
    """The SDKs let their HTTP library's errors through while a body is read; which library differs by version."""
    try:
        yield from body.iter_bytes()
    except Exception as error:
        if not type(error).__module__.startswith("httpx"):
            raise
        if "Timeout" in type(error).__name__:
            raise _LimitError(f"the reply stopped and had not ended after {limits.seconds:g} s") from error
        raise TransientError(
            f"the connection broke ({said(str(error), SAID_CHARS) or type(error).__name__})", billed=True
        ) from error


def _events(chunks: Iterable[bytes], host: str) -> Iterator[dict[str, Any]]:
    """The `data:` objects of an event stream; a server that does not stream sends one plain object instead."""
    plain: list[bytes] = []
    streamed = False
    for row in _lines(chunks):
        if row.startswith(b"data:"):
            streamed = True
            data = row[5:].strip()
            if data and data != b"[DONE]":
                yield _object(data, host)
        elif not streamed and not row.startswith((b":", b"event:", b"id:", b"retry:")):
            plain.append(row)
    if not streamed and b"".join(plain).strip():
        yield _object(b"\n".join(plain), host)


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    for chunk in chunks:
        head, *rest = chunk.split(b"\n")
        parts.append(head)
        for row in rest:
            yield b"".join(parts).rstrip(b"\r")
            parts = [row]
    if any(parts):
        yield b"".join(parts)


def _object(data: bytes, host: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        shown = said(data[:4096].decode(errors="replace"), 80)
        # passing: a proxy whose server is down answers with a page of its own
        message = f"{host}: the reply is not a JSON object: {shown!r}"
        raise ProviderError(message, _ADDRESS, billed=True, passing=True)
    return value

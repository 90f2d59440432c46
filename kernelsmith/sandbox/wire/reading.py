"""Bytes of a frame to messages.

What a child says is hostile. Invariant: a reader gives back a message within its bounds or raises ValueError, and costs
the judge a few hundred megabytes and seconds at worst, whatever it is given. Both ends use it.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from kernelsmith.sandbox.wire.exchange import (
    BuilderReply,
    BuilderRequest,
    CandidateReply,
    CandidateRequest,
    LauncherReply,
    LauncherRequest,
)
from kernelsmith.sandbox.wire.protocol import MAX_FRAME

MAX_REPLY_VALUES = 500_000
"""Of a child's reply, counted by the commas between them, each of which costs its reader up to 600 bytes (measured). A
plan of 4096 launches with ten tensors each has some 450,000."""
MAX_COMPLAINTS = 20

_T = TypeVar("_T")
_CANDIDATE_REQUEST: TypeAdapter[CandidateRequest] = TypeAdapter(CandidateRequest)
_CANDIDATE_REPLY: TypeAdapter[CandidateReply] = TypeAdapter(CandidateReply)
_LAUNCHER_REQUEST: TypeAdapter[LauncherRequest] = TypeAdapter(LauncherRequest)
_LAUNCHER_REPLY: TypeAdapter[LauncherReply] = TypeAdapter(LauncherReply)
_BUILDER_REQUEST: TypeAdapter[BuilderRequest] = TypeAdapter(BuilderRequest)
_BUILDER_REPLY: TypeAdapter[BuilderReply] = TypeAdapter(BuilderReply)


def too_large(payload: bytes) -> str | None:
    """What is wrong with the size of a reply."""
    values = payload.count(b",")
    if len(payload) <= MAX_FRAME and values <= MAX_REPLY_VALUES:
        return None
    return f"a reply of {len(payload)} bytes and some {values} values; at most {MAX_FRAME} and {MAX_REPLY_VALUES}"


def _claim(adapter: TypeAdapter[_T], payload: bytes) -> _T:
    """What hostile code says. Its size is judged before anything is made of it, its faults are not all listed."""
    if why := too_large(payload):
        raise ValueError(why)
    try:
        return adapter.validate_json(payload, strict=True)
    except ValidationError as error:
        if error.error_count() > MAX_COMPLAINTS:
            raise ValueError(f"a reply in which {error.error_count()} things are wrong") from None
        raise


def candidate_request(payload: bytes) -> CandidateRequest:
    """What the judge asked; raises ValueError."""
    return _CANDIDATE_REQUEST.validate_json(payload, strict=True)


def candidate_reply(payload: bytes) -> CandidateReply:
    """What a candidate claims; raises ValueError with the first thing that is wrong."""
    return _claim(_CANDIDATE_REPLY, payload)


def launcher_request(payload: bytes) -> LauncherRequest:
    """What the judge asked; raises ValueError."""
    return _LAUNCHER_REQUEST.validate_json(payload, strict=True)


def launcher_reply(payload: bytes) -> LauncherReply:
    """What a launcher claims; raises ValueError with the first thing that is wrong."""
    return _claim(_LAUNCHER_REPLY, payload)


def builder_request(payload: bytes) -> BuilderRequest:
    """What the judge asked; raises ValueError."""
    return _BUILDER_REQUEST.validate_json(payload, strict=True)


def builder_reply(payload: bytes) -> BuilderReply:
    """What a builder claims, or the judge tells a candidate of it; raises ValueError with the first thing wrong."""
    return _claim(_BUILDER_REPLY, payload)

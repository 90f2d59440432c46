"""Text that a model, a kernel or a server wrote, made fit to be shown: on a terminal, in a message, in a prompt.

Invariant: what comes back moves no cursor, changes no colour and reorders nothing. Everyone may import it.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -~])?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Without terminal escapes, control characters (but newline and tab) and marks that reorder text."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def line(text: str, limit: int = 160) -> str:
    """Clean, on one line, cut."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def fence(text: str, info: str = "") -> str:
    """Clean, as a fenced block that its content cannot close."""
    plain = "\n".join(one.rstrip() for one in clean(text).split("\n")).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{info}\n{plain}\n{mark}"

"""Source lines out of TTIR's location aliases (`#loc3 = loc("x"(#loc1))`).

Only used for messages. An inlined call's location names callee and caller, innermost first. The line that a person
wants to read is the innermost one that is not in Triton's own library.
"""

from __future__ import annotations

import re

_DEFINITION = re.compile(r"^(#[\w$.]+) = loc\((.*)\)\s*$", re.MULTILINE)
_REFERENCE = re.compile(r"#[\w$.]+")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)(?:":(\d+):\d+|"?)')
"""A file with its line, or any other string: all are taken whole, so time is linear in a hostile text."""
_MAX_DEPTH = 40
_LIBRARY = "triton/language/"


class Locations:
    """Looks locations up by alias; an alias that leads nowhere, or in circles, has no line."""

    def __init__(self, text: str) -> None:
        self._definitions = dict(_DEFINITION.findall(text))
        self._known: dict[str, str | None] = {}

    def resolve(self, location: str) -> str | None:
        """`file:line` for the inside of a `loc(...)`, or None."""
        return self._resolve(location, 0)

    def _resolve(self, location: str, depth: int) -> str | None:
        best: str | None = None
        for file, line in _STRING.findall(location):
            if line and (best is None or _LIBRARY in best):
                best = f"{file}:{line}"
        if best is not None or depth > _MAX_DEPTH:
            return best
        for alias in _REFERENCE.findall(location):
            if best is not None and _LIBRARY not in best:
                break
            if alias not in self._known:
                self._known[alias] = None
                self._known[alias] = self._resolve(self._definitions.get(alias, ""), depth + 1)
            best = self._known[alias] or best
        return best

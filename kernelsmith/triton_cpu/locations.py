"""Source lines out of TTIR's location aliases (`#loc3 = loc("x"(#loc1))`).

Only used for messages. An inlined call's location names callee and caller; the caller's line, the last one in the
text, is the kernel's own and is what a person wants to read.
"""

from __future__ import annotations

import re

_DEFINITION = re.compile(r"^(#[\w$.]+) = loc\((.*)\)\s*$", re.MULTILINE)
_REFERENCE = re.compile(r"#[\w$.]+")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)(?:":(\d+):\d+|"?)')
"""A file with its line, or any other string: all are taken whole, so time is linear in a hostile text."""
_MAX_DEPTH = 40


class Locations:
    """Looks locations up by alias; an alias that leads nowhere, or in circles, has no line."""

    def __init__(self, text: str) -> None:
        self._definitions = dict(_DEFINITION.findall(text))
        self._known: dict[str, str | None] = {}

    def resolve(self, location: str) -> str | None:
        """`file:line` for the inside of a `loc(...)`, or None."""
        return self._resolve(location, 0)

    def _resolve(self, location: str, depth: int) -> str | None:
        direct = [(file, line) for file, line in _STRING.findall(location) if line]
        if direct:
            file, line = direct[-1]
            return f"{file}:{line}"
        if depth > _MAX_DEPTH:
            return None
        for alias in reversed(_REFERENCE.findall(location)):
            if alias not in self._known:
                self._known[alias] = None
                self._known[alias] = self._resolve(self._definitions.get(alias, ""), depth + 1)
            if self._known[alias] is not None:
                return self._known[alias]
        return None

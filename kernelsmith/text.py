"""Text that a model, a kernel or a server wrote, made fit to be shown: on a terminal, a page, in a message or a prompt.

Invariant: what comes back moves no cursor, changes no colour, reorders nothing and hides nothing: a character that
cannot be seen shows as its number (`\\u202e`). Everyone may import it.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -~])?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEPARATORS = re.compile("[\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")
INVISIBLE = re.compile(
    "[\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
"""Characters of no width, fillers, tags, and marks that reorder what stands beside them (Unicode's default ignorables
but for the variation selectors that emoji carry, and its bidirectional controls)."""
_NEWLINES = re.compile(r"\r\n|\r|\n")
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>()#|$~!&]")


def clean(text: str) -> str:
    """Without terminal escapes and control characters (but newline and tab); what cannot be seen as its number."""
    plain = _CONTROLS.sub("", _ESCAPES.sub("", text))
    return INVISIBLE.sub(_number, _SURROGATES.sub("\ufffd", _SEPARATORS.sub("\n", plain)))


def _number(found: re.Match[str]) -> str:
    return found[0].encode("ascii", "backslashreplace").decode()


def line(text: str, limit: int = 160) -> str:
    """Clean, on one line, cut."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def fence(text: str, info: str = "") -> str:
    """Clean, as a fenced block that its content cannot close."""
    plain = "\n".join(one.rstrip() for one in clean(text).split("\n")).strip("\n")
    mark = "`" * max(3, _longest_run(plain) + 1)
    return f"{mark}{info}\n{plain}\n{mark}"


def code(text: str, limit: int = 160) -> str:
    """Clean, on one line, as inline code that its content cannot close."""
    plain = line(text, limit)
    mark = "`" * (_longest_run(plain) + 1)
    pad = " " if "`" in plain else ""
    return f"{mark}{pad}{plain}{pad}{mark}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def markdown(text: str) -> str:
    """Clean, with all that Markdown or HTML would take as more than text escaped: no tag, link, image or heading."""
    return _MARKDOWN.sub(_escaped, clean(text))


def _escaped(found: re.Match[str]) -> str:
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}  # a backslash would not do everywhere
    return entities.get(found[0], "\\" + found[0])


def code_lines(text: str) -> list[str]:
    """Lines as Python's parser counts them; `str.splitlines` also ends one at form feeds and the like, and so would
    point at others."""
    lines = _NEWLINES.split(text)
    return lines if lines[-1] else lines[:-1]


def size(nbytes: int) -> str:
    """Bytes as a person reads them: `33.6 MB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{nbytes} bytes"

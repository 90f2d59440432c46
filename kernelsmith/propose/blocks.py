"""Search/replace blocks: a reply that changes a kernel instead of writing it again.

    <<<<<<< SEARCH
    lines of the kernel as they are
    =======
    lines that take their place
    >>>>>>> REPLACE

The form is the one that models know from coding assistants (aider's "diff" format). Invariant: a block applies at one
place or not at all; blanks at line ends and a common indentation may differ, nothing else is guessed. Text only.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

_BEGIN = re.compile(r"[ \t]*<{5,9}[ \t]*SEARCH[ \t]*")
_MIDDLE = re.compile(r"[ \t]*={5,9}[ \t]*")
_END = re.compile(r"[ \t]*>{5,9}[ \t]*REPLACE[ \t]*")
_FORM = "<<<<<<< SEARCH, the old lines, =======, the new lines, >>>>>>> REPLACE, every mark on a line of its own"
MOST_BLOCKS = 40
MOST_CHARS = 200_000
"""Of the kernel and of all blocks: more is not looked through."""


@dataclass(frozen=True)
class Block:
    search: tuple[str, ...]
    replace: tuple[str, ...]


@dataclass(frozen=True)
class NotApplied:
    """Why a reply's blocks do not apply, in words that a model can act on."""

    reason: str


def has_blocks(text: str) -> bool:
    """Whether a reply holds a mark of a block, complete or not."""
    return any(_BEGIN.fullmatch(line) or _END.fullmatch(line) for line in text.split("\n"))


def applied(text: str, base: str | None) -> str | NotApplied:
    """The base with all blocks of a reply applied in order; each sees what those before it left."""
    if base is None:
        return NotApplied("the reply holds search/replace blocks, and there is no kernel that they could change")
    if len(text) + len(base) > MOST_CHARS:
        return NotApplied(f"blocks and kernel have more than {MOST_CHARS} characters together")
    found = _read(text)
    if isinstance(found, NotApplied):
        return found
    if len(found) > MOST_BLOCKS:
        return NotApplied(f"more than {MOST_BLOCKS} blocks: write the whole module")
    lines = tuple(base.split("\n"))
    for number, block in enumerate(found, 1):
        changed = _apply(lines, block)
        if isinstance(changed, NotApplied):
            return NotApplied(f"search/replace block {number} of {len(found)} does not apply: {changed.reason}")
        lines = changed
    result = "\n".join(lines)
    return NotApplied("the blocks change nothing") if result == base else result


def _read(text: str) -> list[Block] | NotApplied:
    """All blocks of a reply, in one pass over its lines."""
    found: list[Block] = []
    search: list[str] | None = None
    replace: list[str] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if _BEGIN.fullmatch(line):
            if search is not None:
                return NotApplied(f"line {number} of the reply begins a block inside another one; each is {_FORM}")
            search = []
        elif _END.fullmatch(line):
            if search is None or replace is None:
                return NotApplied(f"line {number} of the reply ends a block that has no middle; each is {_FORM}")
            found.append(Block(tuple(search), tuple(replace)))
            search = replace = None
        elif search is not None and replace is None and _MIDDLE.fullmatch(line):
            replace = []
        elif replace is not None:
            replace.append(line)
        elif search is not None:
            search.append(line)
    return found if search is None else NotApplied(f"the last block of the reply has no end; each is {_FORM}")


def _apply(lines: tuple[str, ...], block: Block) -> tuple[str, ...] | NotApplied:
    if not any(line.strip() for line in block.search):
        return NotApplied("its search part is empty; name the lines that the new ones take the place of")
    for places, shift in _ways(lines, block.search):
        if len(places) > 1:
            numbers = ", ".join(str(place + 1) for place in places[:5])
            return NotApplied(f"its search part occurs {len(places)} times (lines {numbers}); add a line that differs")
        if places:
            end = places[0] + len(block.search)
            return (*lines[: places[0]], *(_shifted(line, shift) for line in block.replace), *lines[end:])
    return NotApplied(_nearest(lines, block.search))


def _ways(lines: Sequence[str], search: Sequence[str]) -> list[tuple[list[int], str]]:
    """The places where the lines occur, with the indentation that the new ones need, the strictest way first."""
    exact = _places(lines, search)
    if exact:
        return [(exact, "")]
    stripped = [line.rstrip() for line in lines]
    trailing = _places(stripped, [line.rstrip() for line in search])
    if trailing:
        return [(trailing, "")]
    bare = textwrap.dedent("\n".join(line.rstrip() for line in search)).split("\n")
    moved = [
        place
        for place in range(len(lines) - len(search) + 1)
        if textwrap.dedent("\n".join(stripped[place : place + len(search)])).split("\n") == bare
    ]
    # what was written with less indentation than the kernel has; with more, nothing says how much is meant
    shift = _missing(lines[moved[0]], search[0]) if moved else None
    return [(moved, shift)] if shift is not None else []


def _places(lines: Sequence[str], search: Sequence[str]) -> list[int]:
    wanted = list(search)
    return [at for at in range(len(lines) - len(wanted) + 1) if list(lines[at : at + len(wanted)]) == wanted]


def _missing(line: str, written: str) -> str | None:
    own, other = line[: len(line) - len(line.lstrip())], written[: len(written) - len(written.lstrip())]
    return own.removesuffix(other) if own.endswith(other) else None


def _shifted(line: str, shift: str) -> str:
    return shift + line if line.strip() else line


def _nearest(lines: Sequence[str], search: Sequence[str]) -> str:
    """Which line of the search part is not in the kernel, and what stands there that is most like it."""
    known = {line.strip() for line in lines}
    absent = next((line for line in search if line.strip() and line.strip() not in known), None)
    if absent is None:
        return "its lines occur, but not one after another as it has them"
    close = difflib.get_close_matches(absent.strip(), sorted(known), n=1, cutoff=0.5)
    if not close:
        return f"the kernel has no line like {absent.strip()!r}"
    at = next(number for number, line in enumerate(lines, 1) if line.strip() == close[0])
    return f"the kernel has no line {absent.strip()!r}; line {at} is {close[0]!r}"

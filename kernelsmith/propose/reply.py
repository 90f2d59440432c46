"""Finding the kernel module in what a model wrote.

Invariant: the text is read, never run. Models wrap code in prose, in one fence or several, think aloud first, or are
cut off in the middle; what can be judged is returned, and only a reply without code is refused. Called by the loop.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from kernelsmith.propose.blocks import NotApplied, applied, has_blocks

MAX_PARSED_CHARS = 400_000
"""Longer blocks are not parsed here; the screen refuses them anyway."""
_MAX_FENCES = 200
"""Only the last so many fence lines are looked at."""
_MAX_TRIES = 8
"""Ends of one block, or of an unfenced module, that are tried."""

_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$", re.MULTILINE)
_THOUGHT_OPEN = re.compile(r"<(think|thinking|reasoning)>")
_THOUGHT_CLOSE = re.compile(r"</(?:think|thinking|reasoning)>")
_PYTHON_LINE = re.compile(r"^(?:import |from \w[\w.]* import |@triton\.|def \w+\(|class \w+|\"\"\"|''')", re.MULTILINE)
_PYTHON_INFO = ("", "python", "py", "python3", "triton")


@dataclass(frozen=True)
class NoCode:
    """A reply without a module in it, and why that was concluded."""

    reason: str


@dataclass(frozen=True)
class _Block:
    text: str
    info: str


def parse(text: str, entry: str, base: str | None = None) -> str | NoCode | NotApplied:
    """The module in a reply. `entry` is the function (or class) it must define; the last module that does wins. Without
    one, blocks of changes apply to `base`."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    answer = _without_thinking(plain)
    if not answer.strip():
        return NoCode("the reply holds reasoning and no answer" if plain.strip() else "the reply is empty")
    blocks = list(_blocks(answer))
    for block in reversed(blocks):
        if _defines(block.text, entry) and not has_blocks(block.text):
            return _tidy(block.text)
    if has_blocks(answer):
        return applied(answer, base)
    if not blocks and (module := _unfenced(answer, entry)) is not None:
        return _tidy(module)
    for block in reversed(blocks):
        if block.info in _PYTHON_INFO and _PYTHON_LINE.search(block.text):
            return _tidy(block.text)
    return NoCode(f"the reply holds no Python module that defines {entry}; expected one fenced block with all of it")


def _tidy(source: str) -> str:
    return source.strip("\n") + "\n"


def _without_thinking(text: str) -> str:
    """Drop reasoning that a server left in the text, also where it dropped the opening tag or the reply was cut."""
    kept: list[str] = []
    start = 0
    while opening := _THOUGHT_OPEN.search(text, start):
        closing = f"</{opening[1]}>"
        end = text.find(closing, opening.end())
        if end < 0:
            if not "".join([*kept, text[start : opening.start()]]).strip():
                return ""
            break
        kept.append(text[start : opening.start()])
        start = end + len(closing)
    answer = "".join([*kept, text[start:]])
    stray = list(_THOUGHT_CLOSE.finditer(answer))
    return answer[stray[-1].end() :] if stray else answer


def _blocks(text: str) -> Iterator[_Block]:
    """Fenced blocks. A fence inside a docstring does not end a block that is no Python without what follows it."""
    fences = list(_FENCE.finditer(text))[-_MAX_FENCES:]
    index = 0
    while index < len(fences):
        opening = fences[index]
        info = opening["info"].strip().split(" ")[0].lower()
        closers = [i for i in range(index + 1, len(fences)) if _closes(fences[i], opening)]
        start = opening.end() + 1
        if not closers:
            yield _Block(text[start:], info)
            return
        end = next((i for i in closers[:_MAX_TRIES] if _parses(text[start : fences[i].start()])), closers[0])
        yield _Block(text[start : fences[end].start()], info)
        index = end + 1


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    mark, opened = fence["mark"], opening["mark"]
    return mark[0] == opened[0] and len(mark) >= len(opened) and not fence["info"].strip()


def _unfenced(text: str, entry: str) -> str | None:
    """A module written without fences: from its first line of code to the line before the closing prose."""
    first = _PYTHON_LINE.search(text)
    if first is None:
        return None
    source = text[first.start() :]
    for _ in range(_MAX_TRIES):
        if not _defines(source, entry):
            return None
        error_line = _syntax_error_line(source)
        if error_line is None:
            return source
        source = "\n".join(source.split("\n")[: error_line - 1])
    return None


def _defines(source: str, entry: str) -> bool:
    name = re.escape(entry)
    return re.search(rf"^(?:def {name}\s*\(|class {name}\b|{name}\s*=)", source, re.MULTILINE) is not None


def _parses(source: str) -> bool:
    return _syntax_error_line(source) is None


def _syntax_error_line(source: str) -> int | None:
    """Line of the first syntax error; None if there is none (or the text is too long or deep to say)."""
    if len(source) > MAX_PARSED_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a docstring is no news to the user
            ast.parse(source)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return None
    return None

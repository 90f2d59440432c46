"""Text from others, made fit to be shown; whatever it is, in linear time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kernelsmith.text import clean, code, code_lines, fence, line, markdown


def test_a_fence_is_not_closed_by_its_content() -> None:
    assert fence("a  \n\t\nb\n```\n\n", "python") == "````python\na\n\nb\n```\n````"


def test_nothing_moves_the_cursor() -> None:
    assert line("\x1b[2Ja\x1b]0;title\x07\tb\u202e\nc") == "a b\\u202e c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200bb", "a\\u200bb"),
        ("\u202eevil\u202c", "\\u202eevil\\u202c"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\ufeffx\u00ad", "\\ufeffx\\xad"),
        ("\U000e0041x", "\\U000e0041x"),
        ("one\u2028two\u2029three", "one\ntwo\nthree"),
        ("half \ud83d", "half \ufffd"),
        ("\x85\x0b\x0c", ""),
        ("é 字 😀 ⚠\ufe0f", "é 字 😀 ⚠\ufe0f"),
    ],
)
def test_nothing_is_hidden(text: str, shown: str) -> None:
    assert clean(text) == shown
    shown.encode()


def test_inline_code_is_not_closed_by_its_content() -> None:
    assert code("a`b``c\nd") == "``` a`b``c d ```"
    assert code("BLOCK=128") == "`BLOCK=128`"


def test_markdown_is_only_text() -> None:
    text = "# h\n![i](http://e/x.png) <img src=x> [l](javascript:1) `c` **b** &lt; a|b"
    assert not any(mark in markdown(text) for mark in ("\n#", "![", "](", "<", "**", " |"))
    assert markdown("plain words, 1.5x faster") == "plain words, 1.5x faster"


def test_lines_are_those_of_the_parser() -> None:
    assert code_lines("a = '\u2028\x0c\x1e'\r\nb\rc\n") == ["a = '\u2028\x0c\x1e'", "b", "c"]
    assert code_lines("") == []


@pytest.mark.parametrize("make_fit", [clean, line, fence, code, markdown])
@pytest.mark.parametrize("piece", [" ", "\t", "`", "\x1b", "\x1b[", "\x1b[0", "\x1b]", "\x1bP", "\n", "1"])
def test_hostile_text_takes_linear_time(make_fit: Callable[[str], str], piece: str) -> None:
    """Four times the text takes some four times as long, where a quadratic pattern takes sixteen times."""

    def seconds(n: int) -> float:
        text = "\x1b[" + piece * (n // len(piece)) + "x"
        took = []
        for _ in range(2):
            begin = time.process_time()
            make_fit(text)
            took.append(time.process_time() - begin)
        return min(took)

    assert seconds(400_000) < 9 * seconds(100_000) + 0.2

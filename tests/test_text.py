"""Text from others, made fit to be shown; whatever it is, in linear time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kernelsmith.text import clean, fence, line


def test_a_fence_is_not_closed_by_its_content() -> None:
    assert fence("a  \n\t\nb\n```\n\n", "python") == "````python\na\n\nb\n```\n````"


def test_nothing_moves_the_cursor() -> None:
    assert line("\x1b[2Ja\x1b]0;title\x07\tb\u202e\nc") == "a b c"


@pytest.mark.parametrize("make_fit", [clean, line, fence])
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

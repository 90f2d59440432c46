from __future__ import annotations

import pytest

from kernelsmith.propose.blocks import NotApplied, applied, has_blocks
from kernelsmith.propose.reply import NoCode, parse

BASE = """import triton

@triton.jit
def kernel(x, n):
    a = 1
    b = 2
    for i in range(n):
        a = 1


def op(x):
    return kernel(x, 4)
"""


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


@pytest.mark.parametrize(
    ("reply", "old", "new"),
    [
        (block("    b = 2\n", "    b = 3\n"), "    b = 2\n", "    b = 3\n"),
        (
            "Wider.\n```python\n" + block("    b = 2\n", "    b = 3\n    c = 4\n") + "```\n",
            "b = 2\n",
            "b = 3\n    c = 4\n",
        ),
        (block("    b = 2   \n", "    b = 3\n"), "b = 2", "b = 3"),
        (block("b = 2\nfor i in range(n):\n", "if n:\n"), "b = 2\n    for i in range(n):", "if n:"),
        (block("    b = 2\n", ""), "    b = 2\n", ""),
        (block("    b = 2\n", "    b = 3\n") + "and\n" + block("    b = 3\n", "    b = 5\n"), "b = 2", "b = 5"),
    ],
    ids=["exact", "fenced", "blanks at the end", "less indented", "removed", "one after another"],
)
def test_blocks_change_what_they_name(reply: str, old: str, new: str) -> None:
    assert applied(reply, BASE) == BASE.replace(old, new)
    assert parse(reply, "op", BASE) == BASE.replace(old, new)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (block("a = 1\n", "a = 2\n"), "occurs 2 times (lines 5, 8)"),
        (block("    c = 2\n", "    b = 3\n"), "no line 'c = 2'; line 6 is 'b = 2'"),
        (block("    nothing_like_it(at, all)\n", ""), "no line like 'nothing_like_it(at, all)'"),
        (block("    b = 2\n    a = 1\n", ""), "not one after another"),
        (block("\n", "b = 3\n"), "search part is empty"),
        (block("    b = 2\n", "    b = 2\n"), "change nothing"),
        ("<<<<<<< SEARCH\n    b = 2\n=======\n    b = 3\n", "the last block of the reply has no end"),
        (block("    b = 2\n", "    b = 3\n") + block("    b = 2\n", "    b = 4\n"), "block 2 of 2"),
        (block("        b = 2\n", "        b = 3\n"), "not one after another"),
        ("<<<<<<< SEARCH\n    b = 2\n" * 999, "inside another one"),
        ("    b = 2\n>>>>>>> REPLACE\n", "has no middle"),
    ],
)
def test_blocks_that_do_not_apply_say_why(reply: str, reason: str) -> None:
    found = parse(reply, "op", BASE)
    assert isinstance(found, NotApplied) and reason in found.reason


def test_a_whole_module_beside_blocks_is_taken() -> None:
    module = BASE.replace("b = 2", "b = 7")
    assert parse(f"{block('    b = 2', '')}\nThat is:\n```python\n{module}```\n", "op", BASE) == module


def test_without_a_kernel_to_change_blocks_are_refused() -> None:
    found = parse(block("    b = 2\n", "    b = 3\n"), "op")
    assert isinstance(found, NotApplied) and "no kernel" in found.reason


def test_marks_of_other_things_are_no_blocks() -> None:
    assert not has_blocks("x << 7\n=======\n>>> SEARCH\n")
    assert isinstance(parse("=======\n", "op", BASE), NoCode)

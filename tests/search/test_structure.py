from __future__ import annotations

import pytest

from kernelsmith.library import kernels
from kernelsmith.search.structure import NOTHING, code_lines, program_id, structure

ROW = '''
"""A row at a time."""
import triton
import triton.language as tl


@triton.jit
def helper(x):
    return tl.exp(x)


@triton.autotune(configs=[triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def row(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)  # a comment
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, helper(v) / tl.sum(v), mask=at < n)
'''


def test_numbers_names_and_comments_change_no_structure() -> None:
    other = ROW.replace("128", "4096").replace("row", "line").replace("# a comment", "# another")
    assert structure(ROW) == structure(other)
    assert structure(ROW).words == "1 kernel, no loop, 1 load, 1 store, reductions"


def test_another_pass_changes_it() -> None:
    looped = ROW.replace("    v = tl.load", "    for start in range(0, n, BLOCK):\n        v = tl.load")
    assert structure(looped) != structure(ROW) and structure(looped).loops == 1


@pytest.mark.parametrize(
    ("loop", "persistent"),
    [
        ("for t in range(tl.program_id(0), n, tl.num_programs(0)):", True),
        ("for t in range(me, n, 64):", True),
        ("for t in range(0, n, BLOCK):", False),
        ("for t in range(me):", False),
    ],
)
def test_persistent_kernels_begin_at_their_own_number(loop: str, persistent: bool) -> None:
    source = ROW.replace("    v = tl", f"    me = tl.program_id(0)\n    {loop}\n        v = tl")
    assert structure(source).persistent is persistent


def test_layout_and_comments_make_no_other_program() -> None:
    assert program_id(ROW) == program_id(ROW.replace("# a comment", "# another") + "\n\n")
    assert program_id(ROW) != program_id(ROW.replace("128", "256"))
    broken = "def f(:\n"
    assert program_id(broken) == program_id(broken) != program_id(broken + "# other\n")
    assert program_id("# one") != program_id("# two"), "what holds no code is its text"


def test_what_is_no_python_has_no_structure() -> None:
    assert structure("def f(:\n") == NOTHING
    assert code_lines("def f(:\n") == 0


def test_docstrings_and_comments_are_no_lines_of_code() -> None:
    assert code_lines(ROW) == code_lines(ROW.replace('"""A row at a time."""', "").replace("  # a comment", ""))


def test_every_example_kernel_has_a_structure() -> None:
    for kernel in kernels():
        found = structure(kernel.source)
        assert found.kernels >= 1 and found.loads >= 1 and found.stores + found.atomics >= 1, kernel.file

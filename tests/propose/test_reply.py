from __future__ import annotations

import pytest

from kernelsmith.propose.reply import NoCode, parse

MODULE = """import triton
import triton.language as tl


@triton.jit
def _kernel(x):
    pass


def softmax(x):
    return x
"""


HELPER = "def helper(): ...\n"
SHELL = "pytest\n"
WORSE = "def softmax(x): return 0\n"


def fenced(source: str, info: str = "python", mark: str = "```") -> str:
    return f"{mark}{info}\n{source}{mark}\n"


@pytest.mark.parametrize(
    "text",
    [
        fenced(MODULE),
        f"Here it is:\n\n{fenced(MODULE)}\nIt should be fast.",
        fenced(MODULE, info=""),
        fenced(MODULE, info="Python title=kernel.py"),
        fenced(MODULE, mark="~~~"),
        fenced(MODULE, mark="`````"),
        fenced(MODULE).replace("\n", "\r\n"),
        "\ufeff" + MODULE,
        f"<think>\n{fenced(WORSE)}</think>\n{fenced(MODULE)}",
        f"let me think ...</think>\n{fenced(MODULE)}",
        f"Sketch:\n{fenced(HELPER)}\nand whole:\n{fenced(MODULE)}Run:\n{fenced(SHELL, 'bash')}",
        f"First:\n{fenced(WORSE)}\nbetter:\n{fenced(MODULE)}",
        f"```python\n{MODULE}",
        MODULE,
        f"Sure, here is the module.\n\n{MODULE}\nI hope that this helps!\n",
    ],
)
def test_the_module_is_found_whatever_surrounds_it(text: str) -> None:
    assert parse(text, "softmax") == MODULE


def test_a_fence_inside_a_docstring_does_not_end_the_module() -> None:
    source = f'"""How to call it:\n\n```\nsoftmax(x)\n```\n"""\n{MODULE}'
    assert parse(fenced(source), "softmax") == source


def test_a_class_and_an_assigned_name_count_as_the_entry() -> None:
    source = "class ModelNew(torch.nn.Module):\n    pass\n"
    assert parse(fenced(source), "ModelNew") == source
    assert parse(fenced("softmax = make()\n"), "softmax") == "softmax = make()\n"


def test_a_cut_module_is_still_handed_on() -> None:
    cut = MODULE.removesuffix("    return x\n")
    assert parse(f"```python\n{cut}", "softmax") == cut


def test_python_that_lacks_the_entry_is_left_for_the_screen_to_name() -> None:
    assert parse(fenced("import triton\ndef other(x): ...\n"), "softmax") == "import triton\ndef other(x): ...\n"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        (" \r\n\t", "empty"),
        ("<think>I wonder", "reasoning"),
        ("<think>a</think>\n", "reasoning"),
        ("I cannot do that.", "softmax"),
        (fenced("pip install triton\n", "bash"), "softmax"),
        ("word " * 400_000, "softmax"),
        ("```\n" * 100_000, "softmax"),
        ("x <think>" * 100_000, "softmax"),
    ],
)
def test_a_reply_without_code_says_so(text: str, word: str) -> None:
    found = parse(text, "softmax")
    assert isinstance(found, NoCode)
    assert word in found.reason


def test_nothing_is_run() -> None:
    source = "raise SystemExit\ndef softmax(x): ...\n"
    assert parse(fenced(source), "softmax") == source

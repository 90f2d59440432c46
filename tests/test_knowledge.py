"""What models are told of devices and kinds of operators: short, sourced, and picked by the operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import library, prompts
from kernelsmith.proposal import Move
from tests.test_prompts import CPU, SOFTMAX, brief

ROOT = Path(__file__).parents[1] / "prompts"
CATEGORIES = sorted((ROOT / "knowledge" / "categories").glob("*.md"))
MOST_LINES = 25


@pytest.mark.parametrize("path", CATEGORIES, ids=lambda path: path.stem)
def test_a_category_is_told_in_few_lines_with_sources(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0].startswith("## ") and len(lines) <= MOST_LINES
    assert any(line.startswith("Sources: ") for line in lines)


def test_every_category_has_its_file() -> None:
    known = {*library._CATEGORIES, "elementwise"}
    assert {path.stem for path in CATEGORIES} == known


def test_the_operators_category_is_told_and_recorded() -> None:
    prompt = prompts.render(brief(move=Move.DRAFT))
    assert SOFTMAX.ops and CPU.name
    name = f"knowledge/categories/{library.categories(SOFTMAX)[0]}.md"
    assert name in prompt.files
    assert (ROOT / name).read_text().strip() in prompt.system

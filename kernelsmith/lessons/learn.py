"""What one verdict teaches. Pure functions over texts; nothing is run, nothing is stored.

A failure of form teaches its rule, in the compiler's or the judge's own words, with the code that broke it. A
repair that got past it teaches what mended it. A kernel that was measured clearly faster or slower than the one that it
was made from teaches whether its idea paid.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from kernelsmith.base import Frozen, digest
from kernelsmith.model import Evaluation
from kernelsmith.outcome import Outcome
from kernelsmith.runs import TrialRecord
from kernelsmith.search.moves import MENDABLE
from kernelsmith.text import line

MOST_CHARS = 300
"""Of a lesson's text."""
MOST_CHANGED = 3
"""Lines that a mend may change to be told."""
_NO_RULE = frozenset({Outcome.NO_CODE, Outcome.PATCH_FAILED})
"""Failures of the reply's form, not of the kernel's."""
_LINE = re.compile(r"\s*\(line \d+\)\s*$")
_AT = re.compile(r"\(line (\d+)\)\s*$")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,}|<{5,9} ?SEARCH)", re.MULTILINE)


class Kind(StrEnum):
    RULE = "rule"
    """What is refused or does not compile."""
    PAID = "paid"
    """An idea that made a kernel faster."""
    COST = "cost"
    """One that made it slower."""
    NOTE = "note"
    """A user's own."""


class Observation(Frozen):
    """What one trial teaches, before it is held against what is known."""

    kind: Kind
    key: str
    """Equal for observations of the same lesson."""
    text: str = Field(max_length=MOST_CHARS)
    code: str = ""
    """The code that broke the rule, as it was written."""
    candidate: str
    """Id of the candidate: the same text teaches once."""


def observed(trial: TrialRecord) -> Observation | None:
    """The rule that a failure of form broke."""
    evaluation = trial.evaluation
    if evaluation is None or trial.repeats is not None or evaluation.outcome not in MENDABLE - _NO_RULE:
        return None
    rule = _rule(evaluation)
    text = line(rule, MOST_CHARS)
    key = digest(evaluation.outcome.value, evaluation.stage.value, _NUMBER.sub("N", text))
    code = line(_construct(evaluation.message, trial.candidate.source), MOST_CHARS)
    return Observation(kind=Kind.RULE, key=key, text=text, code=code, candidate=trial.candidate.id)


def idea(reply: str) -> str:
    """What a model said before its code, on one line."""
    fence = _FENCE.search(reply)
    return line(reply[: fence.start()] if fence else "", MOST_CHARS)


def paid(trial: TrialRecord, base: TrialRecord, said: str, category: str) -> Observation | None:
    """Whether the idea of a kernel that was made from another one paid, where both were measured and the difference is
    beyond both intervals."""
    now, before = trial.evaluation, base.evaluation
    if not said or now is None or before is None or trial.repeats is not None:
        return None
    own, other = now.score_ci95, before.score_ci95
    if own is None or other is None or not (own[0] > other[1] or own[1] < other[0]):
        return None
    assert now.score is not None and before.score is not None, "intervals are of scores"
    kind = Kind.PAID if own[0] > other[1] else Kind.COST
    text = line(f"{now.score / before.score:.2f}x: {said}", MOST_CHARS)
    return Observation(kind=kind, key=digest(category, said), text=text, candidate=trial.candidate.id)


def mend(broken: TrialRecord, repaired: TrialRecord) -> str:
    """The change that got a kernel past its failure, if it is small: `old` -> `new`; else nothing."""
    evaluation = repaired.evaluation
    if evaluation is None or evaluation.outcome in MENDABLE:
        return ""
    old, new = broken.candidate.source.splitlines(), repaired.candidate.source.splitlines()
    changes = [row for row in difflib.ndiff(old, new) if row[:2] in ("- ", "+ ") and row[2:].strip()]
    before = [row[2:].strip() for row in changes if row[0] == "-"]
    after = [row[2:].strip() for row in changes if row[0] == "+"]
    if not after or max(len(before), len(after)) > MOST_CHANGED:
        return ""
    return line(f"`{'; '.join(before)}` -> `{'; '.join(after)}`", MOST_CHARS)


def contradicts(source: str, code: str) -> bool:
    """Whether a kernel that passed holds the very code that a rule refuses. Only code without names of its own tells:
    `tl.arange(0, BLOCK)` may be right with another BLOCK."""
    return bool(code) and _is_closed(code) and code in _calls(source)


def _rule(evaluation: Evaluation) -> str:
    """The last line of a message: front ends show the code first and say what is wrong with it at the end."""
    lines = [text for text in _LINE.sub("", evaluation.message.strip()).splitlines() if text.strip()]
    return lines[-1].strip() if lines else evaluation.message


def _construct(message: str, source: str) -> str:
    """The call at the line and column that the message points at; the line itself where there is none."""
    at = _AT.search(message.strip())
    lines = source.splitlines()
    if at is None or not 1 <= int(at[1]) <= len(lines):
        return ""
    number = int(at[1])
    caret = next((row for row in message.splitlines() if row.strip() == "^"), None)
    for node in _nodes(source):
        if caret is not None and node.lineno == number and node.col_offset == len(caret) - 1:
            return ast.unparse(node)
    return lines[number - 1].strip()


def _nodes(source: str) -> Iterable[ast.Call]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _calls(source: str) -> set[str]:
    return {ast.unparse(node) for node in _nodes(source)}


def _is_closed(code: str) -> bool:
    try:
        tree = ast.parse(code, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} <= {"tl", "triton", "libdevice"}

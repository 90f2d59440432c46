"""The lessons of a store: what was learned, how often it was seen, what a user made of it.

Invariant: a lesson that a user wrote or edited is never rewritten, and one that was deleted does not come back. Used by
the loop and by the `lessons` command.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from kernelsmith.base import Frozen, digest
from kernelsmith.errors import UsageError
from kernelsmith.lessons.learn import MOST_CHARS, Kind, Observation, contradicts
from kernelsmith.store import Store
from kernelsmith.text import line

LEAST_EVIDENCE = 2
"""Distinct kernels that a rule needs before it is offered; one may have its own reasons."""
MOST_OFFERED = 8
MOST_IDEAS = 3
"""Of each kind, among those offered."""
_REMEMBERED = 200
"""Candidates that a lesson remembers by name; beyond them it is well known."""


class Lesson(Frozen):
    """One rule, idea or note."""

    id: str
    family: str
    """Of targets: the torch device type, since front ends and rules go with it."""
    category: str = ""
    """Of operators; empty: any."""
    kind: Kind
    text: str
    code: str = ""
    mend: str = ""
    seen: int = Field(ge=0)
    """Distinct kernels that showed it."""
    contradicted: int = Field(default=0, ge=0)
    """Distinct kernels that passed although they do what it forbids."""
    edited: bool = False
    """By a user, whose word counts without evidence."""
    created: str

    @property
    def offered(self) -> bool:
        """Whether models are told it."""
        if self.edited or self.kind is Kind.NOTE:
            return True
        enough = self.seen >= (LEAST_EVIDENCE if self.kind is Kind.RULE else 1)
        return enough and 2 * self.contradicted < self.seen

    @property
    def words(self) -> str:
        """As a prompt has it."""
        at = f" (at `{self.code}`)" if self.code else ""
        mended = f"; mended by {self.mend}" if self.mend else ""
        prefix = {Kind.PAID: "this paid, ", Kind.COST: "this cost speed, "}.get(self.kind, "")
        return f"{prefix}{self.text}{at}{mended}"


class Lessons:
    """The book of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ------------------------------------------------------------ reading

    def all(self) -> tuple[Lesson, ...]:
        """Those that were not deleted, best supported first."""
        rows = self._store.select("SELECT * FROM lessons WHERE removed = 0")
        return tuple(sorted(map(_lesson, rows), key=lambda one: (-one.seen, one.created)))

    def find(self, prefix: str) -> Lesson:
        """The lesson whose id begins with `prefix`; UsageError unless there is exactly one."""
        found = [one for one in self.all() if one.id.startswith(prefix)]
        if len(found) != 1:
            what = "no lesson" if not found else f"{len(found)} lessons"
            raise UsageError(f"{what} whose id begins with {prefix!r}", "kernelsmith lessons list shows them")
        return found[0]

    def offered(self, family: str, category: str) -> tuple[str, ...]:
        """What a model is told for this device and kind of operator: notes, rules, then ideas."""
        fitting = [one for one in self.all() if one.offered and one.family == family and one.category in ("", category)]
        told = [one for kind in (Kind.NOTE, Kind.RULE) for one in fitting if one.kind is kind]
        ideas = [one for kind in (Kind.PAID, Kind.COST) for one in [o for o in fitting if o.kind is kind][:MOST_IDEAS]]
        return tuple(one.words for one in (*told[: MOST_OFFERED - min(len(ideas), MOST_IDEAS)], *ideas)[:MOST_OFFERED])

    # ------------------------------------------------------------ learning

    def learn(self, family: str, seen: Observation, category: str = "") -> None:
        """Note what a trial taught. The same kernel teaches once."""
        own = "" if seen.kind is Kind.RULE else category
        name = digest(family, own, seen.kind.value, seen.key)[:10]
        known = self._row(name)
        if known is None:
            self._insert(name, family, own, seen.kind, seen.text, seen.code, [seen.candidate])
            return
        candidates = json.loads(known["candidates"])
        if seen.candidate not in candidates and len(candidates) < _REMEMBERED:
            self._update(name, {"candidates": json.dumps([*candidates, seen.candidate])})

    def mended(self, family: str, seen: Observation, change: str) -> None:
        """Note what got a kernel past a rule; the shortest change is the one that is told."""
        known = self._row(digest(family, "", seen.kind.value, seen.key)[:10])
        if known is not None and change and not known["edited"]:
            before = known["mend"]
            if not before or len(change) < len(before):
                self._update(known["id"], {"mend": change})

    def passed(self, family: str, source: str, candidate: str) -> None:
        """Note the rules that a kernel which passed contradicts."""
        for row in self._store.select("SELECT * FROM lessons WHERE family = ? AND kind = ?", family, Kind.RULE.value):
            against = json.loads(row["contradicted"])
            if candidate not in against and len(against) < _REMEMBERED and contradicts(source, row["code"]):
                self._update(row["id"], {"contradicted": json.dumps([*against, candidate])})

    # ------------------------------------------------------------ a user's hand

    def add(self, family: str, text: str, category: str = "") -> Lesson:
        """A note of the user's own."""
        written = _text(text)
        name = digest(family, category, Kind.NOTE.value, written)[:10]
        if self._row(name) is None:
            self._insert(name, family, category, Kind.NOTE, written, "", [])
        else:
            self._update(name, {"removed": 0})
        return self.find(name)

    def edit(self, prefix: str, text: str) -> Lesson:
        found = self.find(prefix)
        self._update(found.id, {"text": _text(text), "edited": 1})
        return self.find(found.id)

    def remove(self, prefix: str) -> Lesson:
        """It is kept out of sight, so that the next failure does not bring it back."""
        found = self.find(prefix)
        self._update(found.id, {"removed": 1})
        return found

    # ------------------------------------------------------------ rows

    def _row(self, name: str) -> Mapping[str, Any] | None:
        return next(iter(self._store.select("SELECT * FROM lessons WHERE id = ?", name)), None)

    def _insert(
        self, name: str, family: str, category: str, kind: Kind, text: str, code: str, candidates: Iterable[str]
    ) -> None:
        row = {
            "id": name,
            "family": family,
            "category": category,
            "kind": kind.value,
            "text": text,
            "code": code,
            "mend": "",
            "candidates": json.dumps(list(candidates)),
            "contradicted": "[]",
            "edited": 0,
            "removed": 0,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        marks = ", ".join("?" * len(row))
        self._store.change(f"INSERT OR IGNORE INTO lessons ({', '.join(row)}) VALUES ({marks})", *row.values())

    def _update(self, name: str, changes: Mapping[str, object]) -> None:
        names = ", ".join(f"{column} = ?" for column in changes)
        self._store.change(f"UPDATE lessons SET {names} WHERE id = ?", *changes.values(), name)


def _text(text: str) -> str:
    written = line(text, MOST_CHARS)
    if not written:
        raise UsageError("a lesson without words", "write one sentence that a model can act on")
    return written


def _lesson(row: Mapping[str, Any]) -> Lesson:
    counts = {"seen": len(json.loads(row["candidates"])), "contradicted": len(json.loads(row["contradicted"]))}
    kept = {name: row[name] for name in ("id", "family", "category", "kind", "text", "code", "mend", "created")}
    return Lesson.model_validate(kept | counts | {"edited": bool(row["edited"])})

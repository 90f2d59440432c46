"""Rows of the store as types, and back where JSON would lose something. A row that fits no type is a StoreError.

Called by store.py only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from kernelsmith.errors import StoreError
from kernelsmith.model import Confinement, Evaluation
from kernelsmith.proposal import Candidate, Move, Usage
from kernelsmith.runs import Call, Run, RunSpec, TrialRecord, Verdict

Row = Mapping[str, Any]


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (ValidationError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise StoreError(
            f"{what}: the stored record cannot be read: {_reason(error)}",
            "it was changed by hand, or by another kernelsmith",
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
    return str(error) or type(error).__name__


def exact(usage: Usage) -> str:
    """JSON with the dollars as a decimal string: a JSON number would round them."""
    return json.dumps(usage.model_dump(mode="json") | {"usd": str(usage.usd)})


def run(row: Row) -> Run:
    with _readable(f"run {row['id']}"):
        return Run(
            id=row["id"],
            created=row["created"],
            version=row["version"],
            spec=RunSpec.model_validate_json(row["spec"]),
            status=row["status"],
            stop=row["stop"],
            message=row["message"] or "",
            winner=row["winner"],
            seconds=row["seconds"],
            confinement=Confinement.model_validate_json(row["confinement"]) if row["confinement"] else None,
        )


def call(row: Row) -> Call:
    with _readable(f"call {row['number']} of run {row['run']}"):
        return Call(
            number=row["number"],
            model=row["model"],
            prompt=row["prompt"],
            move=row["move"] or (Move.REPAIR if row["repairs"] is not None else Move.DRAFT),
            base=row["base"],
            parents=tuple(json.loads(row["parents"])),
            repairs=row["repairs"],
            parts=tuple(json.loads(row["parts"] or "[]")),
            status=row["status"],
            reserved=Usage.model_validate_json(row["reserved"]),
            usage=Usage.model_validate_json(row["usage"]),
            reply=row["reply"] or "",
            complete=row["complete"] != 0,
            message=row["message"] or "",
        )


def trial(row: Row) -> TrialRecord:
    with _readable(f"trial {row['number']} of run {row['run']}"):
        evaluation = Evaluation.model_validate_json(row["evaluation"]) if row["evaluation"] else None
        return TrialRecord(
            number=row["number"],
            candidate=Candidate(source=row["source"], origin=row["origin"], parents=tuple(json.loads(row["parents"]))),
            repairs=row["repairs"],
            repeats=row["repeats"],
            verdict=Verdict(level=row["level"], seed=row["seed"], evaluation=evaluation) if evaluation else None,
        )

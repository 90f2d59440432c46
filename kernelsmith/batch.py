"""A suite: many operators under budgets, one after another or a few at once. Goes on after failures.

    [defaults]
    device = "cpu"
    max-time = "3m"

    [[item]]
    op = "softmax.py"
    min-speedup = 1.1

Invariant: every item ends as one BatchItem, whatever happened to it. Paths are relative to the suite's file, which is
trusted like a script: it names operator files and models, and those may be programs. Called by the `batch` command.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from kernelsmith.base import Frozen, Scalar
from kernelsmith.config import Settings
from kernelsmith.errors import KernelsmithError, UsageError
from kernelsmith.files import read_toml
from kernelsmith.flights import Flights
from kernelsmith.model import OperatorRef
from kernelsmith.proposal import Spent, Usage
from kernelsmith.records import BatchItem, BatchResult, TuneRecord, TuneResult
from kernelsmith.session import Listener, Order, read_text, start

LEAST_SPEEDUP = 1.0
"""What an item must reach when the suite does not say."""


class Terms(Frozen):
    """One item: the operator, the settings that differ, and what it must reach."""

    name: str
    operator: Path
    settings: Settings
    overrides: dict[str, Scalar] = {}
    max_bytes: int | None = Field(default=None, gt=0)
    seed: int | None = Field(default=None, ge=0)
    start: Path | None = None
    hint: Path | None = None
    min_speedup: float = Field(default=LEAST_SPEEDUP, gt=0)
    """Lower end of the interval of the speed-up over the best baseline."""


class Suite(Frozen):
    path: Path
    items: tuple[Terms, ...]


_SETTINGS = ("device", "model", "max_trials", "max_tokens", "max_usd", "max_time", "goal", "width", "tolerance")
_OWN = ("name", "op", "set", "max_bytes", "seed", "start", "hint", "min_speedup")
_PATHS = ("op", "start", "hint")


def read_suite(path: Path, settings: Settings) -> Suite:
    """Read and check the whole suite before anything runs. `settings` is what items and defaults do not say."""
    content = read_toml(path)
    _known(path, "the suite", content, ("defaults", "item"))
    defaults, items = content.get("defaults", {}), content.get("item", [])
    if not isinstance(defaults, dict) or not isinstance(items, list) or not items:
        raise UsageError(f"{path}: no items", "write one [[item]] with `op = ...` per operator")
    _known(path, "[defaults]", defaults, (*_SETTINGS, *(name for name in _OWN if name not in ("name", "op"))))
    return Suite(path=path, items=tuple(_terms(path, n, defaults | item, settings) for n, item in enumerate(items, 1)))


def _known(path: Path, place: str, table: dict[str, Any], names: tuple[str, ...]) -> None:
    for key in table:
        if key.replace("-", "_") not in names:
            known = ", ".join(name.replace("_", "-") for name in names)
            raise UsageError(f"{path}: unknown key `{key}` in {place}", f"known keys: {known}")


def _terms(path: Path, number: int, table: dict[str, Any], settings: Settings) -> Terms:
    place = f"item {number}"
    _known(path, place, table, (*_SETTINGS, *_OWN))
    values = {key.replace("-", "_"): value for key, value in table.items()}
    if "op" not in values:
        raise UsageError(f"{path}: {place} names no operator", 'write op = "FILE.py"')
    for name in _PATHS:
        if name in values:
            values[name] = path.parent / str(values[name])
    given = {name: values.pop(name) for name in _SETTINGS if name in values}
    try:
        merged = Settings.model_validate(settings.model_dump() | given)
        values.setdefault("name", values["op"].stem)
        values["operator"] = values.pop("op")
        values["overrides"] = values.pop("set", {})
        return Terms(settings=merged, **values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]).replace("_", "-")
        raise UsageError(f"{path}: {place}: {key}: {first['msg'].removeprefix('Value error, ')}", "mend it") from error


def run_suite(
    suite: Suite,
    *,
    jobs: int,
    emit: Callable[[BatchItem], None],
    hear: Callable[[str, TuneRecord], None],
    interrupted: threading.Event,
) -> BatchResult:
    """Run every item, `jobs` at once; measurements still have the device alone. `hear` gets the records of each run."""
    done: list[BatchItem] = []
    waiting = list(suite.items)
    flights: Flights[str, BatchItem] = Flights()
    while waiting or flights:
        while waiting and len(flights) < jobs and not interrupted.is_set():
            terms = waiting.pop(0)
            flights.start(terms.name, partial(run_item, terms, hear, interrupted))
        if not flights:
            break
        landing = flights.land(0.2)
        if landing is not None and landing.value is not None:
            done.append(landing.value)
            emit(landing.value)
    ok = sum(item.ok for item in done)
    spent = Spent(
        trials=sum(item.spent.trials for item in done),
        usage=sum((item.spent.usage for item in done), Usage()),
        seconds=sum(item.spent.seconds for item in done),
    )
    code: Literal[0, 1, 130] = 130 if interrupted.is_set() else 0 if ok == len(suite.items) else 1
    return BatchResult(suite=str(suite.path), items=len(suite.items), ok=ok, spent=spent, exit_code=code)


def run_item(terms: Terms, hear: Callable[[str, TuneRecord], None], interrupted: threading.Event) -> BatchItem:
    """Tune one operator and hold the result against its terms."""
    try:
        result = start(_order(terms), Listener(lambda record: hear(terms.name, record), interrupted))
    except KernelsmithError as error:
        return BatchItem(name=terms.name, ok=False, wanted=terms.min_speedup, message=error.message)
    except Exception as error:  # noqa: BLE001 - one broken item must not end the suite; it is reported and fails it
        return BatchItem(
            name=terms.name, ok=False, wanted=terms.min_speedup, message=f"{type(error).__name__}: {error}"
        )
    return judged(terms, result)


def _order(terms: Terms) -> Order:
    if not terms.operator.is_file():
        raise UsageError(f"operator file {terms.operator}: no such file")
    ref = OperatorRef(
        path=str(terms.operator.resolve()),
        overrides=terms.overrides,
        max_bytes=terms.max_bytes,
        tolerance=terms.settings.tolerance,
        policies=terms.settings.tolerances,
    )
    return Order(
        operator=ref,
        settings=terms.settings,
        seed=terms.seed,
        start=read_text(terms.start, "start") if terms.start else "",
        hint=read_text(terms.hint, "hint") if terms.hint else "",
    )


def judged(terms: Terms, result: TuneResult) -> BatchItem:
    winner = result.winner
    low = winner.score_ci95[0] if winner and winner.rechecked and winner.score_ci95 else None
    if low is None:
        message = result.message or "no correct kernel was proven"
    elif low < terms.min_speedup:
        message = f"{low:.2f}x is proven, {terms.min_speedup:.2f}x is wanted"
    elif result.goal_met is False:
        message = f"{low:.2f}x is proven, the goal is {result.goal:.2f}x"
    else:
        message = ""
    return BatchItem(
        name=terms.name,
        ok=not message,
        run=result.run,
        target=result.target,
        score=winner.score if winner else None,
        score_ci95=winner.score_ci95 if winner else None,
        wanted=terms.min_speedup,
        stop=result.stop,
        spent=result.spent,
        confinement=result.confinement,
        message=message,
    )

"""How long judging takes: what a winner's full check will need, foretold from what quick evaluations took.

A full check's cases and a longer measurement do not grow with the whole of a quick evaluation: the first of a run also
compiles the baselines, and cases are its smallest part. So stages are foretold one by one, with factors that earlier
runs taught. Called by ledger.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from statistics import median

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.budget import Costs
from kernelsmith.model import CHECK_SECONDS, StageSeconds
from kernelsmith.outcome import Level, Outcome
from kernelsmith.runs import Run, TrialRecord
from kernelsmith.store import Store

REMEMBERED = 16
"""Re-checks of earlier runs that are looked at, the latest first."""
OWN = 3
"""Of the same operator; the slowest of them counts."""


class Growth(Frozen):
    """How many times longer a stage of the winner's re-check takes than that of a quick evaluation of its run. Before
    any run has taught better: 16 runs of the examples on two cores took 7 to 13 times for the cases on the processor,
    4 to 41 without the device, and 0.2 to 1.4 times for the measurement."""

    check: float = Field(default=12.0, ge=0)
    bench: float = Field(default=1.0, ge=0)

    def recheck(self, quick: StageSeconds) -> float:
        """Seconds of a re-check after this quick evaluation."""
        check = min(self.check * quick.check, max(CHECK_SECONDS[Level.FULL], quick.check))
        return max(0.0, quick.total - quick.check - quick.bench) + check + self.bench * quick.bench


UNTAUGHT = Growth()


def learned(store: Store, run: Run) -> Growth:
    """What re-checks on this target took in earlier runs: those of the same operator if there are any."""
    found = _remembered(store, run)
    own = [growth for same, growth in found if same][:OWN]
    if own:
        return Growth(check=max(one.check for one in own), bench=max(one.bench for one in own))
    others = [growth for _, growth in found] + [UNTAUGHT]
    return Growth(check=median(one.check for one in others), bench=median(one.bench for one in others))


def costs(trials: Iterable[TrialRecord], growth: Growth) -> Costs:
    """Of a run with these trials; nothing is known before one of them has passed."""
    quick: list[StageSeconds] = []
    full: list[StageSeconds] = []
    for trial in trials:
        verdict = trial.verdict
        if verdict is not None and verdict.evaluation.outcome is Outcome.PASSED and trial.repeats is None:
            (full if verdict.level is Level.FULL else quick).append(verdict.evaluation.seconds)
    typical = _typical(quick or full)
    recheck = max(one.total for one in full) if full else growth.recheck(typical)
    return Costs(trial=typical.total if quick else 0.0, recheck=recheck)


def _typical(seconds: Sequence[StageSeconds]) -> StageSeconds:
    """Stage by stage the median, so that the one trial which had the baselines compiled does not speak for all."""
    if not seconds:
        return StageSeconds()
    stages = {name: median(getattr(one, name) for one in seconds) for name in StageSeconds.model_fields}
    return StageSeconds.model_validate(stages)


def _remembered(store: Store, run: Run) -> list[tuple[bool, Growth]]:
    """By earlier re-check, the latest first: whether it was one of this operator, and its growth."""
    rows = store.select(
        """
        SELECT json_extract(r.spec, '$.info.digest') AS operator, json_extract(f.evaluation, '$.seconds') AS full,
            (SELECT json_group_array(json_extract(q.evaluation, '$.seconds')) FROM evaluations q
             WHERE q.run = f.run AND q.level = ? AND q.outcome = ?) AS quick
        FROM evaluations f JOIN runs r ON r.id = f.run
        WHERE f.level = ? AND f.outcome = ? AND r.target = ? AND r.id != ? ORDER BY f.id DESC LIMIT ?
        """,
        *(Level.QUICK.value, Outcome.PASSED.value, Level.FULL.value, Outcome.PASSED.value),
        *(run.spec.target, run.id, REMEMBERED),
    )
    found = []
    for row in rows:
        quick = _typical([StageSeconds.model_validate(one) for one in json.loads(row["quick"]) if one])
        full = StageSeconds.model_validate_json(row["full"])
        if quick.check and full.check:
            bench = full.bench / quick.bench if quick.bench else UNTAUGHT.bench
            found.append((row["operator"] == run.spec.info.digest, Growth(check=full.check / quick.check, bench=bench)))
    return found

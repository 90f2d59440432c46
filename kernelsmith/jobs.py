"""What a judge is asked of a trial: a quick check of every kernel, a full one of a winner. Called by tune.py."""

from __future__ import annotations

from kernelsmith.ledger import Ledger
from kernelsmith.model import Job
from kernelsmith.outcome import Level

WINNER_BENCH_SECONDS = 20.0
LEAST_BENCH_SECONDS = 8.0
"""What the search gives every candidate."""
WINNER_SECONDS = 600.0
"""Wall limit of a full check."""


def job_for(ledger: Ledger, number: int, level: Level, *, again: bool = False) -> Job:
    """`again`: a second measurement, under a seed of its own."""
    spec = ledger.run.spec
    job = Job(
        operator=spec.operator,
        target=spec.target,
        source=ledger.trials[number].candidate.source,
        level=level,
        seed=ledger.seed(number, level, again=again),
        revealing=ledger.revealing,
        without_device=spec.without_device,
        max_workspace=spec.max_workspace,
        facts=True,
    )
    changes: dict[str, object] = {"at_once": spec.at_once} if spec.at_once is not None else {}
    if level is Level.FULL:
        changes |= {"sweeps": spec.sweeps, "bench_seconds": _winner_bench(ledger), "seconds": WINNER_SECONDS}
    return job.model_copy(update=changes)


def _winner_bench(ledger: Ledger) -> float:
    """The winner's measurement is longer than the search's where the time allows it."""
    left = ledger.seconds_left
    longest = WINNER_BENCH_SECONDS if left is None else min(WINNER_BENCH_SECONDS, left / 2)
    return max(longest, LEAST_BENCH_SECONDS)

"""Kernels that earlier runs ended with, for other targets or other operators of the same kind: what a port begins from.

Invariant: only of runs that this user made here, and nothing but texts. Called when a run begins.
"""

from __future__ import annotations

from kernelsmith import library, seals
from kernelsmith.errors import StoreError
from kernelsmith.model import Seed
from kernelsmith.runs import RunSpec
from kernelsmith.store import Store

MOST_PORTS = 3


def ports(store: Store, spec: RunSpec) -> tuple[Seed, ...]:
    """The nearest first: the same operator on another target, then operators of the same category on this one, then on
    others; of equally near ones the newest."""
    category = library.categories(spec.info)[0]
    found = []
    for age, run in enumerate(store.runs(skip=_leave_out)):
        other = run.spec
        same = other.info.digest == spec.info.digest
        here = other.target == spec.target
        if (same and here) or not seals.ours(other) or run.winner is None:
            continue
        if not same and library.categories(other.info)[0] != category:
            continue
        winner = next((t for t in store.trials(run) if t.number == run.winner), None)
        if winner is not None:
            origin = f"{other.info.title} on {other.target}, run {run.id}"
            found.append((not same, not here, age, Seed(source=winner.candidate.source, origin=origin)))
    nearest = sorted(found, key=lambda entry: entry[:3])
    return tuple({seed.source: seed for *_, seed in nearest}.values())[:MOST_PORTS]


def _leave_out(error: StoreError) -> None:
    """A run that cannot be read has nothing to offer; `runs list` tells of it."""

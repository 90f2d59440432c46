"""The kernels of a run that are worth working on: the best of every structure, and the best on every workload.

A map of elites (Mouret and Clune, arXiv 1504.04909) whose cells are what kernels do. Pure. Called by `moves`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelsmith.model import Evaluation
from kernelsmith.runs import TrialRecord
from kernelsmith.search.structure import Structure, structure


@dataclass(frozen=True)
class Elite:
    """The best kernel of one structure."""

    structure: Structure
    trial: TrialRecord


@dataclass(frozen=True)
class Archive:
    elites: tuple[Elite, ...]
    """Best first."""
    specialists: dict[str, TrialRecord]
    """By a workload's label: the best there."""

    @property
    def best(self) -> TrialRecord | None:
        return self.elites[0].trial if self.elites else None

    def partner(self, base: TrialRecord) -> TrialRecord | None:
        """The best kernel of another structure that beats `base` on some workload; None if there is none."""
        own = structure(base.candidate.source)
        mine = gains(base.evaluation)
        for elite in self.elites:
            theirs = gains(elite.trial.evaluation)
            if elite.structure != own and any(theirs.get(label, 0.0) > gain for label, gain in mine.items()):
                return elite.trial
        return None


def archive(ranked: Sequence[TrialRecord]) -> Archive:
    """Of trials that were measured or estimated, best first."""
    elites: dict[Structure, Elite] = {}
    specialists: dict[str, TrialRecord] = {}
    for trial in ranked:
        own = structure(trial.candidate.source)
        elites.setdefault(own, Elite(own, trial))
        for label, gain in gains(trial.evaluation).items():
            if label not in specialists or gain > gains(specialists[label].evaluation)[label]:
                specialists[label] = trial
    return Archive(tuple(elites.values()), specialists)


def gains(evaluation: Evaluation | None) -> dict[str, float]:
    """By a workload's label, more being better: measured speed-up, or else the estimated share of the roofline."""
    if evaluation is None:
        return {}
    if evaluation.timings:
        return {t.workload.label: min(t.speedup.values()) for t in evaluation.timings if t.speedup}
    return {one.workload: one.roofline_share for one in evaluation.estimates}

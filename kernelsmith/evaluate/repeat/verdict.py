"""What wrong runs among many make of a candidate: always wrong on some contents, or wrong now and then, and why.

NONDETERMINISTIC is what gave both right and wrong answers to equal inputs; RACE is that where the counts exclude that
it has nothing to do with order or company; anything else keeps the outcome of its first wrong answer. Called by
`repeat`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelsmith.evaluate.repeat.causes import cause
from kernelsmith.evaluate.repeat.tally import Tally
from kernelsmith.outcome import Outcome


@dataclass(frozen=True)
class Verdict:
    """On runs of which something was wrong."""

    outcome: Outcome
    message: str


def verdict(called: Tally, replayed: Tally, rate: str, closer: Tally | None = None) -> Verdict | None:
    """On calls and replays of one case; None where all were right.

    `rate` says in words how often they were wrong. `closer`: more runs, on nothing but the first contents that were
    wrong.
    """
    finding = called.finding or replayed.finding
    if finding is None:
        return None
    if not called.wrong and not replayed.wrong:  # no answer was: memory beside, or kept
        return Verdict(finding.outcome, finding.message)
    if called.varies or replayed.varies or (closer is not None and closer.wrong < closer.runs):
        why = cause(replayed.ways)
        outcome = Outcome.RACE if why else Outcome.NONDETERMINISTIC
        return Verdict(outcome, "; ".join(filter(None, (rate, why, f"the first time, {finding.message}"))))
    kind, tally = ("call", called) if called.wrong else ("replay", replayed)
    return Verdict(finding.outcome, f"{_always(kind, tally, closer)}: {finding.message}")


def _always(kind: str, tally: Tally, closer: Tally | None) -> str:
    contents, runs = len(tally.wrong_on), tally.wrong + (closer.runs if closer is not None else 0)
    those = "it" if contents == 1 else "them"
    return f"wrong on {contents} of {tally.contents} contents, in each of {runs} {kind}s with {those}"

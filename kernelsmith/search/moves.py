"""Which move the next call makes, and on which kernel: serial refinement in a few lines at once, mostly of
the best one.

A line is the best kernel of one structure. What is known of the shares: refining beats sampling at equal budget
(Kevin, arXiv 2507.11948); mostly changes, some rewrites and a few recombinations pay best together (ShinkaEvolve, arXiv
2509.19349: 0.6, 0.3, 0.1); repairing one kernel for ever is a trap (GEAK, arXiv 2507.23194). Pure: the answer follows
from the run's trials and calls, those in flight included, so that a resumed run goes on as it would have. Called by the
loop before every call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.model import Seed
from kernelsmith.outcome import Outcome
from kernelsmith.proposal import Move
from kernelsmith.runs import Call, CallStatus, TrialRecord
from kernelsmith.search.archive import Archive, archive
from kernelsmith.search.structure import code_lines

MOST_REPAIRS = 3
"""Repairs of one kernel, each of the one before; then the next reply starts anew."""
MENDABLE = frozenset(
    {Outcome.NO_CODE, Outcome.PATCH_FAILED, Outcome.REJECTED, Outcome.COMPILE_ERROR, Outcome.RESOURCE_LIMIT}
)
"""Failures of form: the idea has not been tried yet, and the message says what to change."""
MOST_LINES = 3
MOST_ATTEMPTS = 3
"""Improvements of one kernel that bring nothing; then another line has its turn."""
LONG_LINES = 60
"""Of code; a shorter kernel is not worth a call that shortens it."""
CYCLE = (
    Move.IMPROVE,
    Move.PORT,
    Move.IMPROVE,
    Move.IMPROVE,
    Move.RECOMBINE,
    Move.IMPROVE,
    Move.DRAFT,
    Move.IMPROVE,
    Move.IMPROVE,
    Move.SIMPLIFY,
)
"""Once something has passed. A move that cannot be made now is an improvement instead."""
ALL = frozenset(Move)
_MADE = frozenset({CallStatus.INTENT, CallStatus.ANSWERED, CallStatus.LOST})


@dataclass(frozen=True)
class Choice:
    """One move; which trials it works on follows from it."""

    move: Move
    base: TrialRecord | None = None
    """The one that is changed; None: the reply is a module of its own."""
    partner: TrialRecord | None = None
    """The other kernel of a recombination, or the one that changes were meant for which do not apply to it."""
    port: Seed | None = None
    """What is brought over."""

    @property
    def shown(self) -> tuple[TrialRecord, ...]:
        """The trials that the reply is made from."""
        return tuple(t for t in (self.base, self.partner) if t is not None)


@dataclass(frozen=True)
class Past:
    """What the choice follows from."""

    trials: Mapping[int, TrialRecord]
    ranked: Sequence[TrialRecord]
    """Measured or estimated ones, best first."""
    calls: Collection[Call]
    """Of models; a search without a model makes moves of its own."""
    ports: Sequence[Seed] = ()
    """Kernels for other targets or operators, the nearest first."""


def next_move(past: Past, may: Collection[Move] = ALL) -> Choice | None:
    """What the next call does: the move that is due, or else the nearest of those it may make; None if none of them is
    possible now."""
    broken = to_mend(past.trials, past.calls)
    if broken is not None and Move.REPAIR in may:
        return Choice(Move.REPAIR, broken, _meant(broken, past))
    kept = archive(past.ranked)
    draft = Choice(Move.DRAFT) if Move.DRAFT in may else None
    if kept.best is None:
        port = _port(past) if Move.PORT in may and _made(past, Move.DRAFT) else None
        return Choice(Move.PORT, port=port) if port is not None else draft
    made = sum(call.status in _MADE and call.move is not Move.REPAIR and _after(call, past) for call in past.calls)
    wanted = CYCLE[made % len(CYCLE)]
    choice = _special(wanted, past, kept) if wanted in may else None
    if choice is not None or Move.IMPROVE not in may:
        return choice or draft
    lines = _lines(past, kept)
    if lines.tired and draft is not None:
        return draft
    return Choice(Move.IMPROVE, lines.next)


def to_mend(trials: Mapping[int, TrialRecord], calls: Collection[Call]) -> TrialRecord | None:
    """The newest failed trial that deserves a repair and was not given one; None if there is none."""
    tried = {c.repairs for c in calls if c.status is not CallStatus.FAILED}
    for trial in reversed(list(trials.values())):
        evaluation = trial.evaluation
        if evaluation is None or trial.repeats is not None or evaluation.outcome not in MENDABLE:
            continue
        searched = trial.candidate.origin.startswith("offline")
        if trial.number not in tried and not searched and _repairs_before(trial, trials) < MOST_REPAIRS:
            return trial
    return None


def _repairs_before(trial: TrialRecord, trials: Mapping[int, TrialRecord]) -> int:
    count, current = 0, trial
    while current.repairs is not None and current.repairs in trials:
        count, current = count + 1, trials[current.repairs]
    return count


def _meant(broken: TrialRecord, past: Past) -> TrialRecord | None:
    """The kernel that changes were meant for which do not apply: the broken trial has no text of its own."""
    if broken.evaluation is None or broken.evaluation.outcome is not Outcome.PATCH_FAILED:
        return None
    call = next((c for c in past.calls if c.number == broken.number), None)
    base = past.trials.get(call.base) if call is not None and call.base is not None else None
    return base if base is not None and base.candidate.source else None


def _special(wanted: Move, past: Past, kept: Archive) -> Choice | None:
    """The move that the cycle asks for, if it can be made now."""
    best = kept.best
    assert best is not None, "something has passed"
    match wanted:
        case Move.PORT:
            port = _port(past)
            return Choice(Move.PORT, port=port) if port is not None else None
        case Move.RECOMBINE:
            partner = kept.partner(best)
            again = partner is not None and _done(past, Move.RECOMBINE, best, partner)
            return Choice(Move.RECOMBINE, best, partner) if partner is not None and not again else None
        case Move.SIMPLIFY:
            long = code_lines(best.candidate.source) >= LONG_LINES
            return Choice(Move.SIMPLIFY, best) if long and not _done(past, Move.SIMPLIFY, best) else None
        case Move.DRAFT:
            return Choice(Move.DRAFT)
    return None


@dataclass(frozen=True)
class _Lines:
    next: TrialRecord
    """The kernel to improve: the best that nobody works on, once each has had its attempts."""
    tired: bool
    """All have had theirs, and no other structure was drafted since."""


def _lines(past: Past, kept: Archive) -> _Lines:
    lines = [elite.trial for elite in kept.elites[:MOST_LINES]]
    attempts = {line.number: [c for c in past.calls if _works_on(c, line)] for line in lines}

    def busy(line: TrialRecord) -> bool:
        return any(call.status is CallStatus.INTENT for call in attempts[line.number])

    rounds = {line.number: len(attempts[line.number]) // MOST_ATTEMPTS for line in lines}
    drafted = max((c.number for c in past.calls if c.move is Move.DRAFT and c.status in _MADE), default=0)
    newest = max((c.number for calls in attempts.values() for c in calls), default=0)
    tired = all(rounds.values()) and len(lines) < MOST_LINES and drafted < newest
    return _Lines(min(lines, key=lambda line: (busy(line), rounds[line.number], lines.index(line))), tired)


def _works_on(call: Call, line: TrialRecord) -> bool:
    return call.move is Move.IMPROVE and call.base == line.number and call.status in _MADE


def _port(past: Past) -> Seed | None:
    """The nearest kernel from elsewhere that was not brought over yet."""
    done = _made(past, Move.PORT)
    return past.ports[done] if done < len(past.ports) else None


def _made(past: Past, move: Move) -> int:
    return sum(call.move is move and call.status in _MADE for call in past.calls)


def _done(past: Past, move: Move, *shown: TrialRecord) -> bool:
    ids = {trial.candidate.id for trial in shown}
    return any(c.move is move and c.status in _MADE and ids <= set(c.parents) for c in past.calls)


def _after(call: Call, past: Past) -> bool:
    """Whether a call was made when something had passed already, as far as numbers tell."""
    return call.number > min(trial.number for trial in past.ranked)

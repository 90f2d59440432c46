"""One call of a proposer, prepared: which move it makes, what it is told, what it may cost. Called by tune.py.

Invariant: nothing is sent and nothing is written here; what comes back fits into the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kernelsmith import briefing, budget
from kernelsmith.ledger import Ledger
from kernelsmith.model import Seed
from kernelsmith.proposal import Brief, Move, Prompt, StopReason, TargetFacts
from kernelsmith.propose import Proposer, Request
from kernelsmith.runs import Call
from kernelsmith.search import bandit
from kernelsmith.search.moves import ALL, Choice, Past, next_move

OFFLINE = "offline"
SHORTEST_CALL = 30.0
"""Seconds: no call is given less, or it would be paid for and cut."""


@dataclass(frozen=True)
class Sources:
    """What is told beside the history, the same all through a run."""

    target: TargetFacts
    seeds: tuple[Seed, ...] = ()
    """Kernels that were found without a model."""
    ports: Sequence[Seed] = ()
    """Kernels of earlier runs, for other targets or operators."""
    lessons: tuple[str, ...] = ()
    """What earlier runs taught."""


@dataclass(frozen=True)
class Ask:
    call: Call
    prompt: Prompt
    request: Request


def chosen(
    ledger: Ledger, ports: Sequence[Seed], proposers: Sequence[Proposer], moves: Sequence[Collection[Move]]
) -> list[int]:
    """The proposers in the order in which they are to be asked: of those that may make the move that is due, the most
    efficient first; then the others. `moves` are what each may do."""
    known = bandit.tallies(ledger.calls.values(), ledger.trials, ledger.run.spec.budget)
    ranked = bandit.order([proposer.spec for proposer in proposers], known)
    due = next_move(past(ledger, ports), frozenset[Move]().union(*moves))
    return sorted(ranked, key=lambda i: proposers[i].spec != OFFLINE and due is not None and due.move not in moves[i])


def prepared(
    ledger: Ledger,
    sources: Sources,
    render: Callable[[Brief], Prompt],
    proposer: Proposer,
    moves: Collection[Move] = ALL,
) -> Ask | StopReason:
    """The next call of this proposer, or the limit that leaves no room for it; EXHAUSTED where it may make none of the
    moves that are possible now."""
    number = ledger.next_number
    choice = searched(ledger) if proposer.spec == OFFLINE else next_move(past(ledger, sources.ports), moves)
    if choice is None:
        return StopReason.EXHAUSTED
    if not ledger.fits(proposer.spec):
        return StopReason.TIME
    told = briefing.brief(
        ledger.run.spec,
        sources.target,
        ledger.history,
        number=number,
        choice=choice,
        seeds=sources.seeds,
        lessons=sources.lessons,
    )
    prompt, allowed = render(told), ledger.allowance
    request = Request(brief=told, prompt=prompt, seconds=max(allowed.seconds, SHORTEST_CALL))

    def limited(tokens: int | None) -> Request:
        return request.model_copy(update={"max_output_tokens": tokens})

    granted = budget.grant(lambda tokens: proposer.reserve(limited(tokens)), allowed)
    if isinstance(granted, StopReason):
        return granted
    shown = choice.shown or (ledger.ranked[: briefing.BEST_SHOWN] if choice.move is Move.DRAFT else ())
    call = Call(
        number=number,
        model=proposer.spec,
        prompt=prompt.id,
        move=choice.move,
        base=choice.base.number if choice.base is not None else None,
        parents=tuple(trial.candidate.id for trial in shown),
        repairs=choice.base.number if choice.base is not None and choice.move is Move.REPAIR else None,
        parts=prompt.files,
        reserved=granted.reserved,
    )
    return Ask(call, prompt, limited(granted.max_output_tokens))


def searched(ledger: Ledger) -> Choice:
    """What a search without a model does: other numbers for the best, or a kernel that it finds somewhere."""
    best = ledger.best
    return Choice(Move.IMPROVE, best) if best is not None else Choice(Move.DRAFT)


def past(ledger: Ledger, ports: Sequence[Seed]) -> Past:
    """What models were asked and what came of it."""
    calls = [call for call in ledger.calls.values() if call.model != OFFLINE]
    return Past(ledger.trials, ledger.ranked, calls, ports)

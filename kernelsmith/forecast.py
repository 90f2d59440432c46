"""What a run would cost before it starts: per model, from its first prompt and from its earlier calls.

Invariant: asks nobody, spends nothing, writes nothing. Called by session.py for `tune --estimate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from statistics import median
from typing import TypeVar

from kernelsmith import budget as limits
from kernelsmith.outcome import Level, Outcome
from kernelsmith.proposal import Brief, Prompt, Spent, StopReason, Usage
from kernelsmith.propose import Proposer, Request
from kernelsmith.quote import ModelQuote, RunQuote
from kernelsmith.runs import CallStatus, RunSpec
from kernelsmith.store import Store

N = TypeVar("N", int, Decimal)

BYTES_PER_TOKEN = 3.5
"""Of prompts that are half code and half English, with the tokenisers of 2024 to 2026; their own counts replace it."""
REPLY_TOKENS = 2_000
"""A module of a hundred lines and the sentences before it; models that reason write two to eight times as much."""
TOKENS_PER_SECOND = 60.0
"""That a hosted model writes."""
TRIAL_SECONDS = 20.0
"""To judge a kernel of the examples on two cores."""
LONGEST_PROMPT = 80_000
"""Bytes that later prompts may have beyond the first: three kernels and a failed one, each of the longest that is
shown, with their tables."""
REMEMBERED = 32
"""Calls of a model, and verdicts on a target, whose median counts."""


def quoted(spec: RunSpec, brief: Brief, prompt: Prompt, proposers: Sequence[Proposer], store: Store | None) -> RunQuote:
    """`store` is where earlier runs are, None where there are none."""
    taken = _trials(store, spec.target)
    trial = median(taken) if taken else TRIAL_SECONDS
    request = Request(brief=brief, prompt=prompt)
    models = tuple(_model(proposer, request, spec, trial, _usages(store, proposer.spec)) for proposer in proposers)
    return RunQuote(
        operator=spec.info.title,
        target=spec.target,
        budget=spec.budget,
        width=spec.width,
        prompt_tokens=_tokens(prompt),
        prompt_bytes=_bytes(prompt),
        trial_seconds=trial,
        trials_measured=len(taken),
        models=models,
        most_tokens=_most(spec.budget.max_tokens, spec.budget.max_trials, max(m.longest.tokens for m in models)),
        most_usd=_most(spec.budget.max_usd, spec.budget.max_trials, max(m.longest.usd for m in models)),
        most_seconds=spec.budget.max_seconds,
    )


def _model(proposer: Proposer, request: Request, spec: RunSpec, trial: float, earlier: Sequence[Usage]) -> ModelQuote:
    prompt = request.prompt
    longer = prompt.model_copy(update={"user": prompt.user + " " * LONGEST_PROMPT})
    first = proposer.reserve(request)
    longest = proposer.reserve(request.model_copy(update={"prompt": longer}))
    granted = limits.grant(
        lambda tokens: proposer.reserve(request.model_copy(update={"max_output_tokens": tokens})),
        limits.allowance(spec.budget, Spent()),
    )
    usual = _middle(earlier) if earlier else _assumed(proposer, request)
    refused = granted if isinstance(granted, StopReason) else None
    calls, stop = (0, refused) if refused else _calls(spec, usual, trial)
    return ModelQuote(
        model=proposer.spec,
        priced=proposer.priced,
        first=first,
        longest=longest,
        least=proposer.reserve(request.model_copy(update={"max_output_tokens": limits.SHORTEST_REPLY})),
        refused=refused,
        usual=usual,
        measured=len(earlier),
        calls=calls,
        stop=stop,
        total_tokens=calls * usual.tokens,
        total_usd=calls * usual.usd,
    )


def _assumed(proposer: Proposer, request: Request) -> Usage:
    """Of a model that was never asked; nothing where a call costs nothing."""
    likely = Prompt(system="", user=" " * _tokens(request.prompt))
    usage = proposer.reserve(request.model_copy(update={"prompt": likely, "max_output_tokens": REPLY_TOKENS}))
    return usage.model_copy(update={"seconds": usage.output_tokens / TOKENS_PER_SECOND})


def _calls(spec: RunSpec, usual: Usage, trial: float) -> tuple[int, StopReason]:
    """Usual calls until a limit is reached, and which: a run has at least one. Trials in flight share the seconds of
    their calls, but not the judge, who times one kernel at a time."""
    most = spec.budget
    reach: dict[StopReason, float] = {}
    if most.max_trials is not None:
        reach[StopReason.TRIALS] = most.max_trials
    if most.max_tokens is not None and usual.tokens:
        reach[StopReason.TOKENS] = most.max_tokens / usual.tokens
    if most.max_usd is not None and usual.usd:
        reach[StopReason.USD] = float(most.max_usd / usual.usd)
    left = limits.search_seconds(most, Spent())
    if left is not None:
        reach[StopReason.TIME] = left / max(trial, (usual.seconds + trial) / spec.width)
    stop = min(reach, key=lambda reason: reach[reason])
    return max(1, int(reach[stop])), stop


def _most(limit: N | None, trials: int | None, longest: N) -> N | None:
    """The least of what bounds it."""
    by_trials = None if trials is None else trials * longest
    bounds = [bound for bound in (limit, by_trials) if bound is not None]
    return min(bounds, default=None) if longest else longest


def _usages(store: Store | None, model: str) -> list[Usage]:
    """What the latest calls of a model cost that answered."""
    if store is None:
        return []
    sql = "SELECT usage FROM calls WHERE model = ? AND status = ? ORDER BY id DESC LIMIT ?"
    rows = store.select(sql, model, CallStatus.ANSWERED.value, REMEMBERED)
    return [Usage.model_validate_json(row["usage"]) for row in rows]


def _trials(store: Store | None, target: str) -> list[float]:
    """Seconds that the latest kernels which passed took to be judged on a target."""
    if store is None:
        return []
    sql = """
        SELECT json_extract(e.evaluation, '$.seconds.total') AS total FROM evaluations e JOIN runs r ON r.id = e.run
        WHERE e.level = ? AND e.outcome = ? AND r.target = ? ORDER BY e.id DESC LIMIT ?
        """
    rows = store.select(sql, Level.QUICK.value, Outcome.PASSED.value, target, REMEMBERED)
    return [float(row["total"]) for row in rows if row["total"]]


def _middle(usages: Sequence[Usage]) -> Usage:
    """Field by field the median."""
    return Usage(
        input_tokens=round(median(u.input_tokens for u in usages)),
        cached_input_tokens=round(median(u.cached_input_tokens for u in usages)),
        cache_write_tokens=round(median(u.cache_write_tokens for u in usages)),
        output_tokens=round(median(u.output_tokens for u in usages)),
        usd=median(u.usd for u in usages),
        seconds=median(u.seconds for u in usages),
    )


def _bytes(prompt: Prompt) -> int:
    return len(prompt.system.encode()) + len(prompt.user.encode())


def _tokens(prompt: Prompt) -> int:
    return round(_bytes(prompt) / BYTES_PER_TOKEN)

from __future__ import annotations

from decimal import Decimal

import pytest

from kernelsmith import forecast, prompts
from kernelsmith.proposal import Budget, Move, Prompt, Reply, StopReason, Trial, Usage
from kernelsmith.propose import Proposer, specs
from kernelsmith.quote import ModelQuote, RunQuote
from kernelsmith.runs import Call
from kernelsmith.store import Store
from tests.fakes import spec
from tests.test_prompts import brief, failed, passed

PRICED = "openai:m@http://127.0.0.1:9/v1?price_input=2&price_output=10&max_output_tokens=8000"
PROMPT = Prompt(system="s" * 6000, user="u" * 1000)
SECOND = Usage(input_tokens=3000, output_tokens=500, usd=Decimal("0.011"), seconds=20)


def told(budget: Budget, store: Store | None = None, model: str = PRICED, width: int = 1) -> RunQuote:
    proposer: Proposer = specs.make(model, environment={})
    return forecast.quoted(spec(budget, models=(model,), width=width), brief(), PROMPT, (proposer,), store)


def one(budget: Budget, store: Store | None = None, model: str = PRICED, width: int = 1) -> ModelQuote:
    (model_quote,) = told(budget, store, model, width).models
    return model_quote


def test_an_unknown_model_is_assumed_to_write_a_module() -> None:
    quote = one(Budget(max_trials=5))
    assert (quote.first.input_tokens, quote.first.output_tokens) == (7256, 8000)
    assert quote.first.usd == Decimal(7256 * 2 + 8000 * 10) / 10**6
    assert quote.usual.input_tokens == 2000 + 256 and quote.usual.output_tokens == 2000 and quote.measured == 0
    assert (quote.calls, quote.stop, quote.total_tokens) == (5, StopReason.TRIALS, 5 * quote.usual.tokens)


@pytest.mark.parametrize(
    ("budget", "stop"),
    [
        (Budget(max_trials=100, max_usd=Decimal("0.05")), StopReason.USD),
        (Budget(max_trials=100, max_tokens=20_000), StopReason.TOKENS),
        (Budget(max_trials=100, max_seconds=120), StopReason.TIME),
    ],
)
def test_the_first_limit_counts(budget: Budget, stop: StopReason) -> None:
    quote = one(budget)
    assert quote.stop is stop and 1 <= quote.calls <= 4
    assert quote.total_usd <= (budget.max_usd or 1) and quote.total_tokens <= (budget.max_tokens or 10**6)


def test_workers_share_the_time_of_calls_but_not_the_judge() -> None:
    limit = Budget(max_seconds=1000)
    alone, many = one(limit).calls, one(limit, width=50).calls
    assert alone < many == int(900 / forecast.TRIAL_SECONDS)


def test_a_first_call_that_does_not_fit_is_said_with_what_it_needs() -> None:
    quote = one(Budget(max_usd=Decimal("0.019")))
    assert (quote.calls, quote.refused) == (0, StopReason.USD)
    assert quote.least.usd == Decimal(7256 * 2 + 512 * 10) / 10**6
    assert one(Budget(max_usd=quote.least.usd)).refused is None


def test_earlier_calls_of_the_model_replace_what_is_assumed(store: Store) -> None:
    run = store.create(spec())
    for number, usage in enumerate((SECOND, SECOND + SECOND, SECOND), 1):
        store.intend(run, Call(number=number, model=PRICED, prompt=PROMPT.id, reserved=Usage()), PROMPT, 0.0)
        store.answered(run, number, Reply(text="x", usage=usage, model=PRICED), 0.0)
    quote = one(Budget(max_trials=2), store)
    assert (quote.usual, quote.measured) == (SECOND, 3)
    assert one(Budget(max_trials=2), store, model=PRICED + "&temperature=1").measured == 0


def test_the_worst_case_is_the_limit_or_as_many_of_the_longest_calls() -> None:
    assert told(Budget(max_usd=Decimal(1), max_seconds=60)).most_usd == 1
    assert told(Budget(max_seconds=60)).most_usd is None, "nothing bounds the dollars"
    by_trials = told(Budget(max_trials=3, max_usd=Decimal(9)))
    longest = by_trials.models[0].longest
    assert by_trials.most_usd == 3 * longest.usd and by_trials.most_tokens == 3 * longest.tokens
    assert longest.input_tokens == by_trials.models[0].first.input_tokens + forecast.LONGEST_PROMPT
    free = told(Budget(max_seconds=60), model="offline")
    assert (free.most_usd, free.most_tokens, free.models[0].usual) == (0, 0, Usage())


def test_later_prompts_stay_below_the_longest_that_is_told() -> None:
    """Kernels, failures and logs of any length."""
    long = "x = 1  # as long as it gets\n" * 2000

    def lengthened(trial: Trial) -> Trial:
        candidate = trial.candidate.model_copy(update={"source": trial.candidate.source + long})
        evaluation = trial.evaluation
        if evaluation is not None:
            evaluation = evaluation.model_copy(update={"log": long, "message": evaluation.message + long})
        return trial.model_copy(update={"candidate": candidate, "evaluation": evaluation})

    best = tuple(lengthened(passed(n, 1.5)) for n in (1, 2, 3))
    failures = tuple(lengthened(failed(n)) for n in (4, 5, 6))
    later = brief(trial=9, best=best, base=best[-1], move=Move.IMPROVE, failures=failures)
    user = prompts.render(later).user
    assert 40_000 < len(user.encode()) <= forecast.LONGEST_PROMPT

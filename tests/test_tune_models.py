"""The loop with real proposers and real prompts, against servers on loopback that speak two protocols."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from kernelsmith import prompts
from kernelsmith.proposal import Budget, StopReason
from kernelsmith.propose import specs
from kernelsmith.propose.remote import Retry
from kernelsmith.records import TuneResult
from kernelsmith.store import Store
from kernelsmith.tune import Tools, tune
from tests.fakes import TARGET, FakeExecutor, code, spec
from tests.servers import ModelServer, cut, ok, status

PRICES = "price_input=2&price_output=8&price_cached_input=0.5"
REPLIES = (
    "I would rather talk about it.",
    code("compile_error"),
    code("wrong_values"),
    code("not_in_plan"),
    code("faster 0.8"),
    ok(code("faster 1.6"), input_tokens=1500, cached=500, output_tokens=70),
)


@pytest.fixture(params=["openai", "anthropic"])
def protocol(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def run(server: ModelServer, protocol: str, store: Store, budget: Budget) -> TuneResult:
    text = server.openai_spec(options=PRICES) if protocol == "openai" else server.anthropic_spec(options=PRICES)
    proposer = specs.make(text, dollars=True, retry=Retry(attempts=2, first=0.01))
    tools = Tools(store, FakeExecutor(), (proposer,), TARGET, prompts.render, lambda _: None)
    return tune(store.create(spec(budget, models=(text,))), tools)


def test_outcomes_reasons_tokens_and_dollars(store: Store, protocol: str) -> None:
    with ModelServer(REPLIES) as server:
        result = run(server, protocol, store, Budget(max_trials=6, max_usd=Decimal(5)))
        prompts_sent = [received.prompt for received in server.requests]
    assert result.exit_code == 0 and result.winner is not None and result.winner.trial == 6
    names = ("no_code", "compile_error", "wrong_values", "not_in_plan")
    assert result.outcomes == dict.fromkeys(sorted(names), 1) | {"passed": 2}
    for reason, prompt in zip(names[1:], prompts_sent[2:], strict=False):
        assert f"because it says {reason}" in prompt
    used = result.spent.usage
    assert (used.input_tokens, used.cached_input_tokens, used.output_tokens) == (6500, 500, 570)
    assert used.usd == Decimal(6000 * 2 + 570 * 8) / 10**6 + Decimal("0.5") * 500 / 10**6


def test_no_call_that_may_exceed_the_dollars(store: Store, protocol: str) -> None:
    budget = Budget(max_usd=Decimal("0.4"))
    greedy = (ok(code("wrong_values", f"_ = {n}\n"), input_tokens=4000, output_tokens=2000) for n in range(999))
    with ModelServer(lambda _: next(greedy)) as server:
        result = run(server, protocol, store, budget)
        cost = len(server.requests) * Decimal(4000 * 2 + 2000 * 8) / 10**6
    assert result.stop is StopReason.USD
    assert result.spent.usage.usd == cost <= Decimal("0.4")
    assert cost > Decimal("0.25"), "and most of it is used"


def test_a_server_that_writes_more_than_it_may_is_not_asked_again(store: Store, protocol: str) -> None:
    """What it counts is counted; no budget could be kept with it."""
    with ModelServer([ok(code("faster 1.5"), output_tokens=40_000)]) as server:
        result = run(server, protocol, store, Budget(max_usd=Decimal(3)))
        assert len(server.requests) == 1
    assert "was the most it was allowed" in result.message and result.winner is not None
    assert result.spent.usage.usd == Decimal(1000 * 2 + 40_000 * 8) / 10**6


def test_model_is_told_that_its_reply_was_cut(store: Store, protocol: str) -> None:
    with ModelServer((cut("```python\nimport tri"), code("faster 1.5"))) as server:
        run(server, protocol, store, Budget(max_trials=2))
        assert "cut off before its end" in server.requests[1].prompt


def test_server_that_stays_down_stops_the_run(store: Store, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelsmith.rotation.COOL_DOWN", 0.001)
    with ModelServer((ok(code("faster 1.2")), status(503))) as server:
        result = run(server, protocol, store, Budget(max_trials=9))
        assert len(server.requests) == 1 + 5 * 2, "one answer, five failures with a retry each"
    assert (result.stop, result.exit_code) == (StopReason.FAILED, 0), "what was found before counts"
    assert "503" in result.message


def test_refused_key_stops_the_run_at_once(store: Store, protocol: str) -> None:
    with ModelServer((ok(code("faster 1.2")), status(401))) as server:
        assert run(server, protocol, store, Budget(max_trials=9)).stop is StopReason.FAILED
        assert len(server.requests) == 2

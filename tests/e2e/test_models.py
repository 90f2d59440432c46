"""A run from the first prompt to the winner, with servers of both protocols: every way to answer, told and paid for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest

from kernelsmith.runs import CallStatus
from kernelsmith.store import Store
from tests.e2e import kernels
from tests.e2e.kernels import reply
from tests.e2e.running import Folder, Record
from tests.servers import ModelServer, Received, Script, ok

PRICE = {"input": Decimal(1), "cached_input": Decimal("0.25"), "output": Decimal(10)}
"""Dollars per million tokens."""
MOST = "0.37"
CALL_OF_USE = Decimal("0.03")
"""More than the cheapest call that can bring a kernel would reserve here."""

SCRIPT: tuple[tuple[str, str, str], ...] = (
    ("I would rather talk about it.", "no_code", "no Python module"),
    (reply(kernels.SYNTAX_ERROR), "compile_error", "syntax error at line"),
    (reply(kernels.WRONG), "wrong_values", "should be"),
    (reply(kernels.DECOY_BESIDE_TORCH), "not_in_plan", "aten.mean"),
    (reply(kernels.DECOY_BESIDE_PYTHON), "not_in_plan", "NumPy|contents"),
    (reply(kernels.TORCH_WHEN_RECORDED), "not_in_plan", "aten.mean"),
    (reply(kernels.TORCH_UNLESS_RECORDED), "not_in_plan", "recorded"),
    (reply(kernels.TORCH_FROM_THE_THIRD_CALL), "not_in_plan", "aten.mean"),
    (reply(kernels.SLOW), "passed", ""),
    (reply(kernels.FAST), "passed", ""),
)
"""What the model replies, the outcome of that, and a pattern of its reason. The last one is repeated."""
WINNER = len(SCRIPT)


@dataclass(frozen=True)
class Bill:
    """Token counts of one reply; `cached` is part of `input`."""

    input: int
    cached: int
    output: int

    @property
    def usd(self) -> Decimal:
        fresh = (self.input - self.cached) * PRICE["input"]
        return (fresh + self.cached * PRICE["cached_input"] + self.output * PRICE["output"]) / 10**6


@dataclass
class Model:
    """Answers in turn, within the limit of output that each request sets, and knows what each answer costs."""

    bills: list[Bill] = field(default_factory=list)

    def __call__(self, received: Received) -> Script:
        number = len(self.bills)
        bill = Bill(4000 + 7 * number, 1000 + 100 * number, min(2500 + 13 * number, received.body["max_tokens"]))
        self.bills.append(bill)
        text = SCRIPT[min(number, WINNER - 1)][0]
        return ok(text, input_tokens=bill.input, cached=bill.cached, output_tokens=bill.output)


def spec(server: ModelServer, protocol: str) -> str:
    options = "&".join(f"price_{name}={value}" for name, value in PRICE.items())
    return server.openai_spec(options=options) if protocol == "openai" else server.anthropic_spec(options=options)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_every_kind_of_reply(folder: Folder, protocol: str) -> None:
    model = Model()
    with ModelServer(model) as server:
        arguments = ("--model", spec(server, protocol), "--max-usd", MOST, "--width", "1")
        with folder.tune("op.py", *arguments) as tuning:
            result = tuning.finish()
            assert tuning.errors == "" and tuning.process.returncode == result["exit_code"], tuning.errors
            records = tuning.records
        sent = [received.prompt for received in server.requests]

    judged = [r for r in records if r["record"] == "trial" and r["level"] == "quick" and not r["again"]]
    assert [r["trial"] for r in judged] == list(range(1, len(sent) + 1)), "every reply has its verdict, in order"
    for trial, (_, outcome, words) in zip(judged, SCRIPT, strict=False):
        assert trial["outcome"] == outcome and re.search(words, trial["message"]), trial
    assert [r["repeats"] for r in judged[WINNER:]] == [WINNER] * (len(judged) - WINNER)

    latest = {r["trial"]: r for r in records if r["record"] == "trial" and r["level"] == "quick"}
    _reasons_are_told(list(latest.values()), sent)
    _cost_is_exact(folder, result, model.bills)
    _winner_is_the_fast_one(folder, records, result)


def _reasons_are_told(judged: list[Record], sent: list[str]) -> None:
    for trial, prompt in zip(judged, sent[1:], strict=False):
        if trial["outcome"] == "passed":
            assert f"{trial['score']:.3f}" in prompt, "the next prompt has the speed-up of what passed"
        else:
            assert trial["message"] in prompt and re.search(rf"Trial {trial['trial']}\b", prompt)
    assert "one fenced ```python block" in sent[1], "a short request to mend what held no code"
    assert kernels.FAST.splitlines()[-1] in sent[WINNER], "the best kernel is shown"


def _cost_is_exact(folder: Folder, result: Record, bills: list[Bill]) -> None:
    with Store.open(folder.path / "runs", create=False) as store:
        calls = store.calls(store.find(result["run"]))
    assert [call.usage.usd for call in calls] == [bill.usd for bill in bills]
    assert all(call.status is CallStatus.ANSWERED and call.usage.usd <= call.reserved.usd for call in calls)
    whole, spent = sum((bill.usd for bill in bills), Decimal(0)), result["spent"]["usage"]
    assert Decimal(str(spent["usd"])) == whole
    assert spent["input_tokens"] == sum(bill.input for bill in bills)
    assert spent["cached_input_tokens"] == sum(bill.cached for bill in bills)
    assert spent["output_tokens"] == sum(bill.output for bill in bills)
    assert result["stop"] == "usd" and len(bills) > WINNER
    assert whole <= Decimal(MOST) < whole + CALL_OF_USE, "never more, and as much of it as is of use"


def _winner_is_the_fast_one(folder: Folder, records: list[Record], result: Record) -> None:
    slow, fast = (
        r
        for r in records
        if r["record"] == "trial" and r["trial"] in (WINNER - 1, WINNER) and r["level"] == "quick" and not r["again"]
    )
    assert slow["score"] < fast["score"]
    winner = result["winner"]
    assert (winner["trial"], winner["rechecked"]) == (WINNER, True)
    assert (folder.path / winner["kernel"]).read_text() == kernels.FAST
    assert set(winner["speedup"]) == {"eager", "compile"} and winner["timings"][0]["workload"]["dims"] == {
        "M": 48,
        "N": 256,
    }
    assert result["exit_code"] == (0 if winner["faster"] else 1)
    assert result["outcomes"]["not_in_plan"] == 5 and result["next"].startswith("kernelsmith export ")


@pytest.mark.parametrize(
    ("model", "environment", "cost"),
    [
        ("openai:gpt-4o", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "{url}/v1"}, "0.0075"),
        ("anthropic:claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "{url}"}, "0.00879"),
    ],
)
def test_a_listed_price_is_taken_without_asking(
    folder: Folder, model: str, environment: dict[str, str], cost: str
) -> None:
    """2.50 and 10 dollars per million for the one, cached input 1.25; 3 and 15 and 0.30 for the other."""
    with ModelServer([ok("no code", input_tokens=2400, cached=800, output_tokens=250)]) as server:
        done = folder.run(
            *("tune", "op.py", "--model", model, "--max-usd", "1", "--max-trials", "1", "--json"),
            environment={name: value.format(url=server.url) for name, value in environment.items()},
            module="tests.cli_with_fakes",
        )
        assert len(server.requests) == 1 and server.requests[0].body["model"] == model.partition(":")[2]
    result = json.loads(done.stdout.splitlines()[-1])
    assert Decimal(str(result["spent"]["usage"]["usd"])) == Decimal(cost)
    assert Path(folder.path / result["folder"]).is_dir()

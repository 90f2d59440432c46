from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from kernelsmith.errors import UsageError
from kernelsmith.proposal import Move
from kernelsmith.propose.specs import make, moves_of, refuse_moveless
from tests.propose.briefs import request
from tests.servers import ModelServer


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("", "offline"),
        ("gpt-5", "openai:MODEL"),
        ("offline:x", "offline"),
        ("openai:", "openai:MODEL"),
        ("command: ", "command:CMD"),
        ("replay:", "replay:"),
        ("openai:@http://127.0.0.1/v1", "no model"),
        ("openai:m@localhost:8000/v1", "scheme"),
        ("openai:m@http://", "address"),
        ("openai:m@http://me:secret@127.0.0.1/v1", "key_env"),
        ("openai:m@http://127.0.0.1/v1?temprature=1", "temprature"),
        ("openai:m@http://127.0.0.1/v1?temperature=9", "temperature"),
        ("openai:m@http://127.0.0.1/v1?temperature", "name=value"),
        ("openai:m@http://127.0.0.1/v1?effort=enormous", "effort"),
        ("openai:m@http://127.0.0.1/v1?price_input=1", "price_output"),
        ("openai:m@http://127.0.0.1/v1?max_output_tokens=0", "max_output_tokens"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("openai:m@https://example.invalid/v1", "OPENAI_API_KEY"),
        ("openai:m@http://127.0.0.1/v1?key_env=MY_KEY", "MY_KEY"),
    ],
)
def test_a_wrong_spec_says_what_to_write(spec: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(spec, environment={})
    assert word in f"{caught.value.message} {caught.value.hint}"


def test_a_plain_address_gets_no_key_unless_told() -> None:
    environment = {"OPENAI_API_KEY": "sk-secret", "MINE": "sk-mine"}
    with ModelServer(["x"]) as server:
        make(server.openai_spec("m"), environment=environment).propose(request())
        make(server.openai_spec("m", "key_env=MINE"), environment=environment).propose(request())
    sent = [received.headers["authorization"] for received in server.requests]
    assert sent == ["Bearer none", "Bearer sk-mine"]


def test_model_names_may_hold_colons_slashes_and_at_signs() -> None:
    with ModelServer(["x"]) as server:
        make(f"openai:qwen/qwen3:8b@2026@{server.url}/v1", environment={}).propose(request())
    assert server.requests[0].body["model"] == "qwen/qwen3:8b@2026"


def test_an_anthropic_address_may_end_in_v1() -> None:
    with ModelServer(["x"]) as server:
        make(f"anthropic:m@{server.url}/v1/", environment={}).propose(request())
    assert server.requests[0].path == "/v1/messages"


def test_a_budget_in_dollars_needs_a_price() -> None:
    spec = "openai:nobody-knows@http://127.0.0.1/v1"
    assert not make(spec, environment={}).priced
    with pytest.raises(UsageError) as caught:
        make(spec, environment={}, dollars=True)
    assert f"{spec}?price_input=" in caught.value.hint
    assert make(f"{spec}?price_input=0&price_output=0", environment={}, dollars=True).priced
    with pytest.raises(UsageError, match="command:cat"):
        make("command:cat", dollars=True)


def test_known_models_have_a_listed_price() -> None:
    environment = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    for spec in ("openai:gpt-5", "anthropic:claude-sonnet-4-5"):
        proposer = make(spec, environment=environment, dollars=True)
        small, large = (proposer.reserve(request(max_output_tokens=n)).usd for n in (1000, 2000))
        assert Decimal(0) < small < large


def test_replay_takes_a_run_id_or_a_folder(tmp_path: Path) -> None:
    trial = tmp_path / "runs" / "r1" / "trials" / "001"
    trial.mkdir(parents=True)
    (trial / "reply.md").write_text("hello")
    for spec in ("replay:r1", f"replay:{tmp_path / 'runs' / 'r1'}"):
        reply = make(spec, runs=tmp_path / "runs").propose(request())
        assert reply is not None
        assert reply.text == "hello"


def test_moves_before_a_spec_keep_a_model_to_them() -> None:
    assert moves_of("draft,repair=openai:small") == (frozenset({Move.DRAFT, Move.REPAIR}), "openai:small")
    assert moves_of("command:env A=draft tool") == (frozenset(Move), "command:env A=draft tool")
    assert moves_of("openai:m@http://host/v1?effort=high")[0] == frozenset(Move)
    refuse_moveless(["improve=openai:strong", "offline"])
    with pytest.raises(UsageError, match="no model may draft: improve=openai:strong"):
        refuse_moveless(["improve=openai:strong"])

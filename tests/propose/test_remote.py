"""The openai and anthropic proposers against a scripted server on loopback, through the real SDKs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kernelsmith.errors import ProviderError
from kernelsmith.propose import Proposer
from kernelsmith.propose.remote import Retry
from kernelsmith.propose.specs import make
from kernelsmith.propose.stream import MAX_TEXT_BYTES
from tests.propose.briefs import PROMPT, request
from tests.servers import Fault, ModelServer, Script, cut, empty, fault, huge, ok, status

PROTOCOLS = ("openai", "anthropic")
PRICES = "price_input=2&price_output=8&price_cached_input=0.5"
both = pytest.mark.parametrize("protocol", PROTOCOLS)


def proposer(server: ModelServer, protocol: str, options: str = PRICES) -> Proposer:
    spec = server.openai_spec if protocol == "openai" else server.anthropic_spec
    return make(spec("m", options), environment={}, retry=Retry(attempts=3, first=0.01))


@both
def test_text_tokens_and_dollars_are_those_of_the_server(protocol: str) -> None:
    script = Script("héllo\n" * 2000, input_tokens=1000, cached=400, output_tokens=250)
    with ModelServer([script]) as server:
        reply = proposer(server, protocol).propose(request())
    assert reply is not None
    assert (reply.text, reply.complete) == (script.text, True)
    counts = (reply.usage.input_tokens, reply.usage.cached_input_tokens, reply.usage.output_tokens)
    assert counts == (1000, 400, 250)
    assert reply.usage.usd == Decimal("0.0034")  # 600 * 2 + 400 * 0.5 + 250 * 8 millionths


def test_anthropic_counts_what_was_written_to_the_cache() -> None:
    with ModelServer([Script("x", input_tokens=1000, cached=300, cache_write=500)]) as server:
        reply = proposer(server, "anthropic").propose(request())
    assert reply is not None
    usage = reply.usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens) == (1000, 300, 500)


@both
def test_the_prompt_arrives_whole_and_the_limits_with_it(protocol: str) -> None:
    with ModelServer(["x"]) as server:
        proposer(server, protocol, "temperature=0.5&effort=high").propose(request(max_output_tokens=321))
        body = server.requests[0].body
    assert server.requests[0].prompt == f"{PROMPT.system}\n{PROMPT.user}"
    assert (body["max_tokens"], body["temperature"], body["stream"]) == (321, 0.5, True)
    effort = body["reasoning_effort"] if protocol == "openai" else body["output_config"]["effort"]
    assert effort == "high"


def test_anthropic_is_told_to_cache_the_system_prompt() -> None:
    with ModelServer(["x"]) as server:
        proposer(server, "anthropic").propose(request())
    assert server.requests[0].body["system"][0]["cache_control"] == {"type": "ephemeral"}


@both
def test_a_reservation_covers_every_reply_and_grows_with_the_output_limit(protocol: str) -> None:
    with ModelServer([ok("x", input_tokens=20, output_tokens=500)]) as server:
        asked = proposer(server, protocol)
        reply = asked.propose(request(max_output_tokens=500))
        reserved = [asked.reserve(request(max_output_tokens=n)) for n in (500, 1000, 1500)]
    assert reply is not None
    assert reserved[0].tokens >= reply.usage.tokens
    assert reserved[0].usd >= reply.usage.usd
    assert reserved[2].usd - reserved[1].usd == reserved[1].usd - reserved[0].usd == Decimal("0.004")


@both
def test_a_reply_cut_at_the_length_limit_is_not_complete(protocol: str) -> None:
    with ModelServer([cut("def f(")]) as server:
        reply = proposer(server, protocol).propose(request())
    assert reply is not None
    assert (reply.text, reply.complete) == ("def f(", False)


@both
def test_an_empty_reply_is_a_reply_that_cost_its_prompt(protocol: str) -> None:
    with ModelServer([empty()]) as server:
        reply = proposer(server, protocol).propose(request())
    assert reply is not None
    assert (reply.text, reply.usage.tokens) == ("", 1000)


@both
def test_a_server_out_of_breath_is_asked_again(protocol: str) -> None:
    with ModelServer([status(429, retry_after=0.02), status(503), "x"]) as server:
        reply = proposer(server, protocol).propose(request())
    assert reply is not None
    assert (reply.text, len(server.requests)) == ("x", 3)


@both
@pytest.mark.parametrize("code", [429, 500])
def test_after_the_last_attempt_the_error_names_the_server_and_its_answer(protocol: str, code: int) -> None:
    with ModelServer([status(code)]) as server, pytest.raises(ProviderError) as caught:
        proposer(server, protocol).propose(request())
    assert len(server.requests) == 3
    assert server.url.removeprefix("http://") in caught.value.message
    assert f"status {code}" in caught.value.message
    assert caught.value.hint
    assert not caught.value.billed
    assert caught.value.passing


def test_what_may_have_been_charged_is_not_asked_for_twice_on_one_reservation() -> None:
    """Anthropic counts the prompt before the first word; a second attempt would cost twice what was reserved."""
    with ModelServer([fault(Fault.OVERLOADED)]) as server, pytest.raises(ProviderError, match="too many") as caught:
        proposer(server, "anthropic").propose(request())
    assert len(server.requests) == 1
    assert caught.value.billed and caught.value.passing
    with ModelServer([fault(Fault.OVERLOADED), "x"]) as server:
        reply = proposer(server, "openai").propose(request())
    assert reply is not None and len(server.requests) == 2, "nothing was counted and nothing written"


@both
def test_a_wait_beyond_the_time_limit_is_not_waited_for(protocol: str) -> None:
    with (
        ModelServer([status(429, retry_after=3600)]) as server,
        pytest.raises(ProviderError, match="wait 3600 s") as caught,
    ):
        proposer(server, protocol).propose(request())
    assert len(server.requests) == 1
    assert caught.value.passing and caught.value.wait == 3600, "the run may wait, the call does not"


@both
@pytest.mark.parametrize(("code", "word"), [(401, "key_env"), (404, "'m'"), (400, "options")])
def test_a_refusal_is_not_repeated_and_says_what_to_mend(protocol: str, code: int, word: str) -> None:
    with ModelServer([status(code)]) as server, pytest.raises(ProviderError, match=f"status {code}") as caught:
        proposer(server, protocol).propose(request())
    assert len(server.requests) == 1
    assert word in caught.value.hint
    assert not caught.value.passing


@both
def test_a_reply_that_is_not_json_is_an_error(protocol: str) -> None:
    with ModelServer([fault(Fault.MALFORMED)]) as server, pytest.raises(ProviderError, match="not json"):
        proposer(server, protocol).propose(request())


@both
def test_a_server_that_is_down_is_named(protocol: str) -> None:
    with ModelServer(["x"]) as server:
        asked = proposer(server, protocol)
    with pytest.raises(ProviderError, match=server.url.removeprefix("http://")) as caught:
        asked.propose(request())
    assert caught.value.passing


@both
def test_an_endless_reply_ends_at_the_size_limit_and_is_charged_in_full(protocol: str) -> None:
    with ModelServer([fault(Fault.ENDLESS)]) as server:
        asked = proposer(server, protocol)
        reply = asked.propose(request(max_output_tokens=777))
        reserved = asked.reserve(request(max_output_tokens=777))
    assert reply is not None
    assert not reply.complete
    assert len(reply.text.encode()) == MAX_TEXT_BYTES
    assert reply.usage.output_tokens == reserved.output_tokens == 777


@both
def test_keep_alives_without_end_meet_the_time_limit(protocol: str) -> None:
    with ModelServer([fault(Fault.KEEPALIVE)]) as server, pytest.raises(ProviderError, match="had not ended after"):
        proposer(server, protocol).propose(request(seconds=0.3))
    assert len(server.requests) == 1


@both
def test_silence_meets_the_time_limit(protocol: str) -> None:
    with ModelServer([fault(Fault.HANG)]) as server, pytest.raises(ProviderError, match=r"after 0\.3 s"):
        proposer(server, protocol).propose(request(seconds=0.3))


@both
def test_no_answer_at_all_is_not_asked_for_twice(protocol: str) -> None:
    with ModelServer([ok("x", delay=30)]) as server, pytest.raises(ProviderError, match=r"within 0\.3 s") as caught:
        proposer(server, protocol).propose(request(seconds=0.3))
    assert len(server.requests) == 1
    assert caught.value.billed and caught.value.passing


@both
def test_two_megabytes_are_cut_to_the_size_limit(protocol: str) -> None:
    with ModelServer([huge(2_000_000)]) as server:
        reply = proposer(server, protocol).propose(request())
    assert reply is not None
    assert (len(reply.text.encode()), reply.complete) == (MAX_TEXT_BYTES, False)


@both
def test_what_arrived_before_a_broken_connection_is_kept(protocol: str) -> None:
    with ModelServer([fault(Fault.DROP)]) as server:
        reply = proposer(server, protocol).propose(request(max_output_tokens=50))
    assert reply is not None
    assert (reply.text, reply.complete, reply.usage.output_tokens) == ("x = 1\n", False, 50)


def test_what_a_paid_server_does_not_count_is_charged_as_reserved() -> None:
    """It may have reasoned for thousands of tokens without a word of that in its reply, and bills them."""
    with ModelServer([Script("four", usage=False)]) as server:
        asked = proposer(server, "openai")
        reply, reserved = asked.propose(request()), asked.reserve(request())
    assert reply is not None
    assert reply.usage.model_copy(update={"seconds": 0.0}) == reserved


def test_a_server_without_a_price_is_taken_at_the_bytes_of_its_reply() -> None:
    with ModelServer([Script("four", usage=False)]) as server:
        asked = proposer(server, "openai", options="")
        reply, reserved = asked.propose(request()), asked.reserve(request())
    assert reply is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (reserved.input_tokens, 4)


def test_half_a_character_does_not_reach_a_file() -> None:
    with ModelServer(["broken \ud83d end"]) as server:
        reply = proposer(server, "openai").propose(request())
    assert reply is not None
    assert reply.text.encode().decode() == "broken \ufffd end"

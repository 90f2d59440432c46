from __future__ import annotations

from decimal import Decimal

from kernelsmith.proposal import Usage
from kernelsmith.propose.pricing import GivenPrice, listed_price, most_usd


def test_given_prices_are_exact() -> None:
    price = GivenPrice(Decimal("0.1"), Decimal("0.3"))
    assert price(Usage(input_tokens=3, output_tokens=1)) == Decimal("0.0000006")
    cached = GivenPrice(Decimal(1), Decimal(0), cached_input=Decimal("0.1"))
    assert cached(Usage(input_tokens=10, cached_input_tokens=4)) == Decimal("0.0000064")


def test_listed_prices_charge_cached_input_less_and_cache_writes_more() -> None:
    price = listed_price("claude-sonnet-4-5", provider="anthropic")
    assert price is not None
    plain, read, written = (
        price(Usage(input_tokens=1000, cached_input_tokens=c, cache_write_tokens=w))
        for c, w in ((0, 0), (1000, 0), (0, 1000))
    )
    assert read < plain < written
    assert most_usd(price, 1000, 0) == written


def test_a_model_nobody_lists_has_no_price() -> None:
    assert listed_price("nobody-knows", provider="openai") is None
    assert listed_price("gpt-5", base_url="http://127.0.0.1:1/v1") is None
    assert listed_price("deepseek-chat", base_url="https://api.deepseek.com/v1") is not None

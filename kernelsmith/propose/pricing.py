"""What tokens cost. Exact decimal dollars, from the user's own prices or from the genai-prices table.

Invariant: a price is either known or None; nothing is guessed. Called by the proposers that ask a paid model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kernelsmith.proposal import Usage

Price = Callable[[Usage], Decimal]
"""Dollars of one call, from its token counts."""

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class GivenPrice:
    """Dollars per million tokens as the user gave them; cached input costs `cached_input`, or `input` without it."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None

    def __call__(self, usage: Usage) -> Decimal:
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input_tokens - usage.cached_input_tokens
        total = fresh * self.input + usage.cached_input_tokens * cached + usage.output_tokens * self.output
        return total / _MILLION


def listed_price(model: str, *, provider: str | None = None, base_url: str | None = None) -> Price | None:
    """The price that genai-prices lists for a model of this provider (or behind this address); None if it has none.

    The table travels with the package; nothing is fetched.
    """
    from genai_prices import Usage as ListedUsage
    from genai_prices import calc_price

    calculate: Callable[..., Any] = calc_price  # its overloads want the provider or the address, never both as None

    def price(usage: Usage) -> Decimal:
        listed = ListedUsage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_input_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
        )
        dollars = calculate(listed, model, provider_id=provider, provider_api_url=base_url).total_price
        return Decimal(dollars)

    try:
        price(Usage(input_tokens=1, output_tokens=1))
    except LookupError:
        return None
    return price


def most_usd(price: Price | None, input_tokens: int, output_tokens: int) -> Decimal:
    """Upper bound of a call's dollars: writing a prompt to a cache can cost more than reading it plainly."""
    if price is None:
        return Decimal(0)
    plain = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    written = plain.model_copy(update={"cache_write_tokens": input_tokens})
    return max(price(plain), price(written))

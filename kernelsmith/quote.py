"""What a run would cost, told before it starts: the records of `tune --estimate`. Plain data; forecast.py fills it."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.proposal import Budget, StopReason, Usage, Usd


class ModelQuote(Frozen):
    """One model, as if it made all the calls."""

    model: str
    priced: bool
    """False: its dollars are not known and count as 0 here."""
    first: Usage
    """The most that the first call can cost: a token for every byte of the prompt, and the longest reply."""
    longest: Usage
    """The same for a call that shows kernels of the longest length."""
    least: Usage
    """The same for the shortest reply that can hold a kernel: what a budget must leave for a first call to be made."""
    refused: StopReason | None = None
    """The limit that leaves no room for the first call."""
    usual: Usage
    """What a call is likely to cost."""
    measured: int = Field(default=0, ge=0)
    """Calls of this model in earlier runs of this store of which `usual` is the median; 0: it is assumed."""
    calls: int
    """Usual ones until a limit is reached."""
    stop: StopReason
    """That limit."""
    total_tokens: int = 0
    """Of so many usual calls."""
    total_usd: Usd = Decimal(0)


class RunQuote(Frozen):
    """`tune --estimate`: nothing was asked and nothing spent."""

    record: Literal["estimate"] = "estimate"
    operator: str
    target: str
    budget: Budget
    width: int
    prompt_tokens: int
    """That the first prompt is likely to have."""
    prompt_bytes: int
    trial_seconds: float
    """To judge one kernel."""
    trials_measured: int = Field(default=0, ge=0)
    """Verdicts of earlier runs on this target of which `trial_seconds` is the median; 0: it is assumed."""
    models: tuple[ModelQuote, ...]
    most_tokens: int | None = None
    """The limit, or as many of the longest calls as there may be trials; None: nothing bounds it."""
    most_usd: Usd | None = None
    """The same in dollars; models without a known price count as free."""
    most_seconds: float | None = None
    """The limit; a call or verdict in flight may end a little later."""

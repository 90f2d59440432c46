"""Who suggests a kernel. A proposer turns a brief (and the prompt rendered from it) into one reply.

Owns the contract only; `specs.make` builds one from what the user wrote. Called by the loop.
"""

from __future__ import annotations

from typing import Protocol

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.proposal import Brief, Prompt, Reply, Usage


class Request(Frozen):
    """One call of a proposer."""

    brief: Brief
    prompt: Prompt
    max_output_tokens: int | None = Field(default=None, gt=0)
    """Clamped to what the budget leaves."""
    seconds: float = Field(default=600.0, gt=0)
    """Time limit of the call; never below what a normal call takes."""


class Proposer(Protocol):
    """Safe to call from several threads."""

    spec: str
    """As the user wrote it, for example `openai:gpt-5`."""
    priced: bool
    """False: the dollars of this model are not known and count as 0, so a budget in dollars cannot hold."""

    def reserve(self, request: Request) -> Usage:
        """The most that this call can cost; reserved before it is made, settled after."""

    def propose(self, request: Request) -> Reply | None:
        """Ask once. None: nothing more to try. Raises ProviderError when asking again at once is pointless."""

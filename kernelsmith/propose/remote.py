"""A language model behind HTTP: reservation, one bounded call with retries, settlement.

Owns what the `openai` and `anthropic` proposers share. Invariant: a call ends within its time limit, and what
it cost is never reported below what the server said, nor above what was reserved when the server said nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from kernelsmith.errors import ProviderError
from kernelsmith.keys import redact, said
from kernelsmith.proposal import Prompt, Reply, Usage
from kernelsmith.propose import Request
from kernelsmith.propose.pricing import Price, most_usd
from kernelsmith.propose.stream import SAID_CHARS, Body, Limits, Received, Take, TransientError, collect

CONNECT_SECONDS = 10.0
DEFAULT_OUTPUT_TOKENS = 16384
"""Room for some reasoning and a module; `?max_output_tokens=` changes it."""
CHAT_OVERHEAD_TOKENS = 256
"""What a chat template may add around the two messages."""


@dataclass(frozen=True)
class Retry:
    """Attempts in all, and the first and the longest pause between them, seconds."""

    attempts: int = 4
    first: float = 0.5
    longest: float = 8.0

    def pause(self, failures: int) -> float:
        """Exponential with jitter, so that several callers do not return at the same moment."""
        return min(self.longest, self.first * 2.0 ** (failures - 1)) * random.uniform(0.75, 1.0)


class RemoteOptions(BaseModel):
    """What may follow `?` in a spec, whatever the provider; prices are looked at by `specs`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float | None = Field(default=None, ge=0, le=2)
    effort: str | None = Field(default=None, pattern="^(none|minimal|low|medium|high|xhigh|max)$")
    """Reasoning effort; which values a model takes is the provider's affair."""
    max_output_tokens: int = Field(default=DEFAULT_OUTPUT_TOKENS, gt=0)
    """Reasoning included."""


@dataclass(frozen=True)
class RemoteSpec:
    """A parsed `openai:` or `anthropic:` spec, key and price looked up."""

    text: str
    """As the user wrote it."""
    model: str
    base_url: str | None
    """None: where the SDK goes by itself."""
    key: str
    key_help: str
    """What to set when the server refuses the key."""
    options: RemoteOptions
    price: Price | None


@dataclass(frozen=True)
class Wire:
    """One protocol over one SDK client."""

    sdk: Any
    """The SDK's module: the two name their exceptions alike."""
    base_url: str
    create: Callable[..., AbstractContextManager[Body]]
    """Sends the request; its body is not read yet."""
    arguments: Callable[[Prompt, int], dict[str, Any]]
    """Of `create`, for a prompt and a limit of output tokens."""
    take: Take


class RemoteProposer:
    """Asks one model. Safe to call from several threads, as the SDK clients are."""

    def __init__(self, spec: RemoteSpec, wire: Wire, retry: Retry) -> None:
        url = urlsplit(wire.base_url)
        self.spec = spec.text
        self.priced = spec.price is not None
        self._parsed = spec
        self._wire = wire
        self._retry = retry
        self._host = f"{url.hostname}:{url.port or (443 if url.scheme == 'https' else 80)}"

    def reserve(self, request: Request) -> Usage:
        """Upper bound: no tokeniser makes more tokens than there are bytes (byte-level BPE, byte fallback)."""
        prompt, price = request.prompt, self._parsed.price
        input_tokens = len(prompt.system.encode()) + len(prompt.user.encode()) + CHAT_OVERHEAD_TOKENS
        output_tokens = self._output_limit(request)
        usd = most_usd(price, input_tokens, output_tokens)
        return Usage(input_tokens=input_tokens, output_tokens=output_tokens, usd=usd)

    def propose(self, request: Request) -> Reply:
        limits, started = Limits.of(request.seconds), time.monotonic()
        arguments = self._wire.arguments(request.prompt, self._output_limit(request))
        received = self._persist(lambda: self._ask(arguments, limits), limits)
        reserved, price = self.reserve(request), self._parsed.price
        usage = _settle(received, reserved, time.monotonic() - started)
        if price is not None:
            # a prompt that nobody counted may have been written to a cache, which costs more
            usd = reserved.usd if received.input_tokens is None else price(usage)
            usage = usage.model_copy(update={"usd": usd})
        return Reply(text=redact(received.whole_text()), usage=usage, model=self.spec, complete=received.finished)

    def _output_limit(self, request: Request) -> int:
        own = self._parsed.options.max_output_tokens
        return own if request.max_output_tokens is None else min(own, request.max_output_tokens)

    def _ask(self, arguments: dict[str, Any], limits: Limits) -> Received:
        """One attempt."""
        sdk = self._wire.sdk
        timeout = sdk.Timeout(max(limits.left, 0.001), connect=min(CONNECT_SECONDS, limits.seconds))
        try:
            with self._wire.create(timeout=timeout, **arguments) as body:
                return collect(body, self._wire.take, limits, self._host)
        except sdk.APITimeoutError as error:
            # not tried again: the server may be at work on it, and then both would be paid for
            message = f"{self._host}: no reply within {limits.seconds:g} s"
            hint = "allow more time, or name another model"
            raise ProviderError(message, hint, billed=True, passing=True) from error
        except sdk.APIStatusError as error:
            raise self._refusal(error) from error
        except sdk.APIConnectionError as error:
            cause = said(str(error.__cause__ or error), SAID_CHARS)
            raise TransientError(f"cannot connect, or the connection broke ({cause})") from error

    def _persist(self, ask: Callable[[], Received], limits: Limits) -> Received:
        """Ask until it succeeds; a passing failure is tried again while attempts and time last. One that may be charged
        for is not: the reservation is for one reply."""
        for failures in range(1, self._retry.attempts + 1):
            try:
                return ask()
            except TransientError as error:
                pause = self._retry.pause(failures) if error.wait is None else error.wait
                if error.billed or failures == self._retry.attempts or pause >= limits.left:
                    asked = f"; it asks to wait {error.wait:g} s" if error.wait else ""
                    raise ProviderError(
                        f"{self._host}: {error.message} (attempt {failures} of {self._retry.attempts}{asked})",
                        "check that the server is up and within its rate limit, then resume the run",
                        billed=error.billed,
                        passing=True,
                        wait=error.wait or 0.0,
                    ) from error
                time.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _refusal(self, error: Any) -> Exception:
        """What a status other than 200 means: something to mend, or to try again."""
        code, words, model = int(error.status_code), _said(error), self._parsed.model
        message = f"{self._host}: status {code}: {words}"
        if code in (401, 403):
            return ProviderError(message, f"the key is missing or refused: set {self._parsed.key_help}")
        if code == 404:
            return ProviderError(message, f"does this server have the model {model!r}, and is its address right?")
        if "insufficient_quota" in str(error.body):
            return ProviderError(message, "the account has no credit left")
        if code in (408, 409, 429) or code >= 500:
            return TransientError(f"status {code}: {words}", _retry_after(error.response.headers))
        return ProviderError(message, "the server refuses the request: check the model and the options of the spec")


def _said(error: Any) -> str:
    """The server's own words, without those that the SDKs put around them."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    words = inner.get("message") if isinstance(inner, dict) else body.get("message")
    return said(str(words or error.message), SAID_CHARS)


def _settle(received: Received, reserved: Usage, seconds: float) -> Usage:
    """Token counts of a call; what the server never said is charged at the most it can be."""
    input_tokens = reserved.input_tokens if received.input_tokens is None else received.input_tokens
    output_tokens = received.output_tokens
    if output_tokens is None:
        # no token is shorter than a byte; but who charges may have reasoned without a word of it in the reply
        seen = received.ended and not reserved.usd
        output_tokens = min(reserved.output_tokens, received.size) if seen else reserved.output_tokens
    cached = min(received.cached, input_tokens)
    return Usage(
        input_tokens=input_tokens,
        cached_input_tokens=cached,
        cache_write_tokens=min(received.cache_write, input_tokens - cached),
        output_tokens=output_tokens,
        seconds=seconds,
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait: `retry-after-ms`, or `retry-after` where it is a number."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    return None

"""Model specs: from what a user writes behind `--model` to a proposer.

    offline                                   no key, no network (the default)
    openai:MODEL[@BASE][?OPTIONS]             BASE: http(s)://host/v1 of any compatible server
    anthropic:MODEL[@BASE][?OPTIONS]
    command:CMD                               prompt on stdin, reply on stdout
    replay:RUN-or-DIR                         recorded replies: of a run, or a folder of them

`draft,repair=SPEC` keeps a model to these moves.

OPTIONS: `name=value` joined by `&`. Keys come from the environment only. A key is sent to the provider itself and to
`https://` addresses; a plain `http://` address gets one only if `key_env=VARIABLE` names it. Called by the loop.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, ValidationError, model_validator

from kernelsmith import keys
from kernelsmith.errors import UsageError
from kernelsmith.proposal import Move
from kernelsmith.propose import Proposer
from kernelsmith.propose.pricing import GivenPrice, Price, listed_price
from kernelsmith.propose.remote import RemoteOptions, RemoteSpec, Retry

KINDS = (
    "offline",
    "openai:MODEL",
    "openai:MODEL@http://host/v1",
    "anthropic:MODEL",
    "command:CMD",
    "replay:RUN-or-DIR",
)
_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
KEY_NAMES = tuple(_KEYS.values())
_NO_KEY = "none"
"""Sent to servers that want no key, since the SDKs insist on one."""


class _Options(RemoteOptions):
    """Everything that may follow `?`."""

    price_input: Decimal | None = Field(default=None, ge=0)
    price_output: Decimal | None = Field(default=None, ge=0)
    price_cached_input: Decimal | None = Field(default=None, ge=0)
    """Dollars per million tokens."""
    key_env: str | None = Field(default=None, pattern="^[A-Za-z_][A-Za-z0-9_]*$")

    @model_validator(mode="after")
    def _prices_together(self) -> _Options:
        if (self.price_input is None) != (self.price_output is None):
            raise ValueError("price_input and price_output belong together")
        if self.price_cached_input is not None and self.price_input is None:
            raise ValueError("price_cached_input needs price_input and price_output")
        return self

    @property
    def price(self) -> Price | None:
        if self.price_input is None or self.price_output is None:
            return None
        return GivenPrice(self.price_input, self.price_output, self.price_cached_input)


_MOVES = frozenset(move.value for move in Move)


def moves_of(spec: str) -> tuple[frozenset[Move], str]:
    """The moves that a spec keeps its model to, all if it names none, and the spec without them."""
    before, equals, rest = spec.partition("=")
    words = [word.strip() for word in before.split(",")]
    if not equals or not set(words) <= _MOVES:
        return frozenset(Move), spec
    return frozenset(map(Move, words)), rest


def refuse_moveless(specs: Sequence[str]) -> None:
    """Raises UsageError where no model of an ensemble may write the first kernel."""
    if not any(Move.DRAFT in moves_of(spec)[0] for spec in specs):
        hint = f"let one of them draft: draft,{specs[0]}" if specs else "name a model"
        raise UsageError(f"no model may draft: {', '.join(specs)}", hint)


def make(
    spec: str,
    *,
    seed: int = 0,
    dollars: bool = False,
    runs: Path = Path("runs"),
    prompts: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    retry: Retry | None = None,
) -> Proposer:
    """The proposer that a spec without moves names; raises UsageError saying what to write instead.

    `seed` orders what `offline` tries. `dollars`: a budget in dollars is set, so a model without a known price is an
    error. `runs` is where `replay:` looks for a run's id, `prompts` the folder of the `--prompts` flag, and the
    environment where keys are looked up.
    """
    if (shown := keys.redact(spec, environment)) != spec:
        hint = "in single quotes the shell leaves $VARIABLE as it is, for the command to look up when it runs"
        raise UsageError(f"{shown!r} holds the value of a secret, and a run keeps the names of its models", hint)
    kind, _, rest = spec.partition(":")
    if kind == "offline" and not rest:
        from kernelsmith.propose.offline import OfflineProposer

        return OfflineProposer(seed, prompts)
    if kind == "command" and rest.strip():
        from kernelsmith.propose.command import CommandProposer

        return _affordable(CommandProposer(rest), dollars, "a command does not report what it costs: use --max-trials")
    if kind == "replay" and rest:
        from kernelsmith.propose.replay import ReplayProposer

        path = Path(rest)
        return ReplayProposer(runs / rest if not path.exists() and (runs / rest).is_dir() else path)
    if kind not in _KEYS or not rest:
        raise UsageError(f"unknown model {spec!r}", f"one of: {', '.join(KINDS)}")
    remote = _remote(spec, kind, rest, environment)
    hint = f"give dollars per million tokens: {spec}{'&' if '?' in spec else '?'}price_input=...&price_output=..."
    if kind == "openai":
        from kernelsmith.propose import openai

        return _affordable(openai.make(remote, retry or Retry()), dollars, hint)
    from kernelsmith.propose import anthropic

    return _affordable(anthropic.make(remote, retry or Retry()), dollars, hint)


def _affordable(proposer: Proposer, dollars: bool, hint: str) -> Proposer:
    if dollars and not proposer.priced:
        raise UsageError(f"the price of {proposer.spec!r} is not known, so a budget in dollars cannot be kept", hint)
    return proposer


def _remote(spec: str, kind: str, rest: str, environment: Mapping[str, str]) -> RemoteSpec:
    address, _, query = rest.partition("?")
    model, base_url = _split_address(spec, address)
    options = _options(spec, query)
    key, key_help = _key(spec, kind, base_url, options, environment)
    price = options.price or listed_price(model, provider=None if base_url else kind, base_url=base_url)
    return RemoteSpec(spec, model, base_url, key, key_help, options, price)


def _split_address(spec: str, address: str) -> tuple[str, str | None]:
    """Model and base address. Model names may hold `@`, `:` and `/`, so only `@http` begins an address."""
    found = re.search(r"@(?=https?:)", address)
    model, base_url = (address[: found.start()], address[found.end() :]) if found else (address, None)
    if not model:
        raise UsageError(f"{spec!r} names no model", f"one of: {', '.join(KINDS)}")
    if base_url is None:
        if re.search(r"@[\w.-]+(:\d+|/)", model):
            raise UsageError(f"the address in {spec!r} lacks its scheme", "write MODEL@http://host:port/v1")
        return model, None
    url = urlsplit(base_url)
    if not url.hostname:
        raise UsageError(f"{base_url!r} in {spec!r} is not an address", "write MODEL@http://host:port/v1")
    if url.username or url.password:
        raise UsageError("an address may hold no password", "put the key into a variable and name it: ?key_env=NAME")
    return model, base_url


def _options(spec: str, query: str) -> _Options:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
        return _Options.model_validate(dict(pairs))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        what = "unknown option" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
        known = ", ".join(_Options.model_fields)
        raise UsageError(f"{spec!r}: {f'{name}: ' if name else ''}{what}", f"options: {known}") from error
    except ValueError as error:
        raise UsageError(f"{spec!r}: {query!r} is not name=value&name=value", "for example ?temperature=0.7") from error


def _key(
    spec: str, kind: str, base_url: str | None, options: _Options, environment: Mapping[str, str]
) -> tuple[str, str]:
    """The key to send and what to set if it is refused."""
    plain = base_url is not None and base_url.startswith("http:")
    name = options.key_env or (None if plain else _KEYS[kind])
    if name is None:
        return _NO_KEY, "a variable to the key and name it in the spec: ?key_env=NAME"
    keys.learn(name)
    key = environment.get(name, "").strip()
    if not key:
        raise UsageError(f"{spec!r} needs a key and {name} is not set", f"export {name}=..., or use --model offline")
    return key, name

"""`anthropic:MODEL[@BASE]`: Anthropic's messages through the official SDK.

The system prompt is marked for caching: it does not change within a run and is most of the prompt.
"""

from __future__ import annotations

from typing import Any

from kernelsmith.proposal import Prompt
from kernelsmith.propose.remote import RemoteProposer, RemoteSpec, Retry, Wire
from kernelsmith.propose.stream import Received, count


def make(spec: RemoteSpec, retry: Retry) -> RemoteProposer:
    """A proposer for this spec; imports the SDK."""
    import anthropic

    base_url = spec.base_url and spec.base_url.removesuffix("/").removesuffix("/v1")  # the SDK adds /v1/messages
    client = anthropic.Anthropic(api_key=spec.key, base_url=base_url, max_retries=0)

    def arguments(prompt: Prompt, max_output_tokens: int) -> dict[str, Any]:
        options, extra = spec.options, dict[str, Any]()
        if options.temperature is not None:
            extra["temperature"] = options.temperature
        if options.effort is not None:
            extra["output_config"] = {"effort": options.effort}
        return {
            "model": spec.model,
            "max_tokens": max_output_tokens,
            "system": [{"type": "text", "text": prompt.system, "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": prompt.user}],
            "stream": True,
            "extra_body": extra,  # not every version of the SDK has an argument for these
        }

    create = client.messages.with_streaming_response.create
    return RemoteProposer(spec, Wire(anthropic, str(client.base_url), create, arguments, take), retry)


def take(event: dict[str, Any], received: Received) -> None:
    """Fold one event (or a whole message) into the reply. Input is counted at the start, output at the end."""
    message = event.get("message") or event
    for block in message.get("content") or ():
        received.add(block.get("text"))
    delta = event.get("delta") or {}
    received.add(delta.get("text"))
    received.add(delta.get("thinking"), reasoning=True)
    reason = delta.get("stop_reason") or message.get("stop_reason")
    if reason:
        received.end(reason)
    _take_usage(message.get("usage") or {}, received)


def _take_usage(usage: dict[str, Any], received: Received) -> None:
    """Fresh, cached and cache-writing input are counted apart; output counts are true only once the reply has ended."""
    fresh = count(usage.get("input_tokens"))
    if fresh is not None:
        received.cached = count(usage.get("cache_read_input_tokens")) or 0
        received.cache_write = count(usage.get("cache_creation_input_tokens")) or 0
        received.input_tokens = fresh + received.cached + received.cache_write
    output = count(usage.get("output_tokens"))
    if output is not None and received.ended:
        received.output_tokens = output

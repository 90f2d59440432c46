"""`openai:MODEL[@BASE]`: OpenAI's chat completions, and the many servers that speak them, through the official SDK.

The system prompt comes first and does not change within a run, which is all that automatic prompt caching needs.
"""

from __future__ import annotations

from typing import Any

from kernelsmith.proposal import Prompt
from kernelsmith.propose.remote import RemoteProposer, RemoteSpec, Retry, Wire
from kernelsmith.propose.stream import Received, count

OWN_HOSTS = ("api.openai.com", "openai.azure.com")


def make(spec: RemoteSpec, retry: Retry) -> RemoteProposer:
    """A proposer for this spec; imports the SDK."""
    import openai

    client = openai.OpenAI(api_key=spec.key, base_url=spec.base_url, max_retries=0)

    def arguments(prompt: Prompt, max_output_tokens: int) -> dict[str, Any]:
        # OpenAI's reasoning models refuse the old name; older compatible servers know no other
        limit = "max_completion_tokens" if client.base_url.host.endswith(OWN_HOSTS) else "max_tokens"
        optional = {"temperature": spec.options.temperature, "reasoning_effort": spec.options.effort}
        return {
            "model": spec.model,
            "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
            "stream": True,
            "stream_options": {"include_usage": True},
            limit: max_output_tokens,
        } | {name: value for name, value in optional.items() if value is not None}

    create = client.chat.completions.with_streaming_response.create
    return RemoteProposer(spec, Wire(openai, str(client.base_url), create, arguments, take), retry)


def take(event: dict[str, Any], received: Received) -> None:
    """Fold one `chat.completion.chunk` (or a whole `chat.completion`) into the reply."""
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or choice.get("message") or {}
        received.add(delta.get("content"))
        received.add(delta.get("reasoning_content") or delta.get("reasoning"), reasoning=True)
        if choice.get("finish_reason"):
            received.end(choice["finish_reason"])
    usage = event.get("usage")
    if usage:
        details = usage.get("prompt_tokens_details") or {}
        received.input_tokens = count(usage.get("prompt_tokens"))
        received.output_tokens = count(usage.get("completion_tokens"))
        received.cached = count(details.get("cached_tokens")) or 0
        received.cache_write = count(details.get("cache_write_tokens")) or 0

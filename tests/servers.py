"""A language-model server on loopback whose replies are scripted.

Speaks OpenAI's chat completions (`POST /v1/chat/completions`) and Anthropic's messages (`POST /v1/messages`), streamed
or whole, as the request asks. Every request is kept, so that a test can count calls and read the prompts.

    with ModelServer(["no code here", status(429, retry_after=0), ok(KERNEL)]) as server:
        proposer = make(server.openai_spec("m"))
        ...
    assert len(server.requests) == 3 and server.tokens.output == ...

The n-th request gets the n-th reply; the last reply repeats. A function `Received -> Script | str` may stand in for the
list. Token counts are those of the script, so that a test can compute dollars by hand.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class Fault(Enum):
    NONE = auto()
    MALFORMED = auto()
    """Status 200, a body that is not JSON."""
    ENDLESS = auto()
    """Text that never ends."""
    KEEPALIVE = auto()
    """Comments of the event stream that never end, and no text."""
    DROP = auto()
    """The connection closes in the middle of the text."""
    OVERLOADED = auto()
    """An error event in mid-stream, before any text."""
    HANG = auto()
    """Headers, then silence until the server closes."""


@dataclass(frozen=True)
class Script:
    """One scripted reply. `input_tokens` counts everything; `cached` and `cache_write` are parts of it."""

    text: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    fault: Fault = Fault.NONE
    complete: bool = True
    usage: bool = True
    input_tokens: int = 1000
    cached: int = 0
    cache_write: int = 0
    output_tokens: int = 100
    delay: float = 0.0
    """Seconds before the first byte."""


def ok(text: str, *, input_tokens: int = 1000, cached: int = 0, output_tokens: int = 100, delay: float = 0.0) -> Script:
    return Script(text, input_tokens=input_tokens, cached=cached, output_tokens=output_tokens, delay=delay)


def cut(text: str) -> Script:
    """Stopped at the length limit."""
    return Script(text, complete=False)


def status(code: int, *, retry_after: float | None = None) -> Script:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Script(status=code, headers=headers)


def empty() -> Script:
    return Script("", output_tokens=0)


def huge(size: int = 2_000_000) -> Script:
    """A reply of `size` bytes without code."""
    return Script("word " * (size // 5))


def fault(kind: Fault) -> Script:
    return Script("x = 1\n", fault=kind)


@dataclass(frozen=True)
class Received:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """All text of the request, system first."""
        blocks = [self.body.get("system", "")] + [m["content"] for m in self.body.get("messages", [])]
        texts = [b if isinstance(b, str) else "\n".join(part["text"] for part in b) for b in blocks]
        return "\n".join(t for t in texts if t)


@dataclass(frozen=True)
class Tokens:
    input: int = 0
    cached: int = 0
    output: int = 0


Replies = Sequence[Script | str] | Callable[[Received], "Script | str"]


class ModelServer:
    """Context manager; serves from a thread of its own on a free port of 127.0.0.1."""

    def __init__(self, replies: Replies) -> None:
        self.requests: list[Received] = []
        self.tokens = Tokens()
        """Sum over the replies that were sent whole and with their usage."""
        self.closing = threading.Event()
        self._replies = replies
        self._changed = threading.Condition()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.daemon_threads = True
        self._http.model_server = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def openai_spec(self, model: str = "test-model", options: str = "") -> str:
        return f"openai:{model}@{self.url}/v1" + (f"?{options}" if options else "")

    def anthropic_spec(self, model: str = "test-model", options: str = "") -> str:
        return f"anthropic:{model}@{self.url}" + (f"?{options}" if options else "")

    def wait_for(self, requests: int, seconds: float = 30.0) -> bool:
        """Block until that many requests have arrived; False if they did not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests) >= requests, seconds)

    def take(self, received: Received) -> Script:
        """The reply to this request; records the request."""
        with self._changed:
            index = len(self.requests)
            self.requests.append(received)
            self._changed.notify_all()
        if callable(self._replies):
            reply = self._replies(received)
        else:
            reply = self._replies[min(index, len(self._replies) - 1)]
        return ok(reply) if isinstance(reply, str) else reply

    def settle(self, script: Script) -> None:
        with self._changed:
            old = self.tokens
            self.tokens = Tokens(
                old.input + script.input_tokens, old.cached + script.cached, old.output + script.output_tokens
            )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # one request per connection: the end of the body is the end of the connection

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' stderr clean."""

    def do_POST(self) -> None:
        server: ModelServer = self.server.model_server  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {k.lower(): v for k, v in self.headers.items()}
        script = server.take(Received(self.path, headers, body))
        if server.closing.wait(script.delay):
            return
        wire = _Anthropic if self.path.endswith("/messages") else _OpenAI
        try:
            self._answer(server, script, wire, bool(body.get("stream")))
        except (BrokenPipeError, ConnectionResetError):
            return  # the client hung up, as it should on an endless reply

    def _answer(self, server: ModelServer, script: Script, wire: type[_Wire], stream: bool) -> None:
        self.send_response(script.status)
        for name, value in script.headers.items():
            self.send_header(name, value)
        self.send_header("content-type", "text/event-stream" if stream and script.status == 200 else "application/json")
        self.end_headers()
        if script.status != 200:
            message = script.text or f"scripted status {script.status}"
            self.wfile.write(json.dumps({"error": {"type": "scripted", "message": message}}).encode())
        elif script.fault is Fault.MALFORMED:
            self.wfile.write(b"data: {not json\n\n" if stream else b"{not json")
        elif stream:
            self._stream(server, script, wire)
        else:
            self.wfile.write(json.dumps(wire.whole(script)).encode())
            server.settle(script)

    def _stream(self, server: ModelServer, script: Script, wire: type[_Wire]) -> None:
        if script.fault is Fault.KEEPALIVE:
            while not server.closing.wait(0.01):
                self.wfile.write(b": keep-alive\n\n")
            return
        for event in wire.head(script):
            self._event(event)
        if script.fault is Fault.OVERLOADED:
            self._event({"type": "error", "error": {"type": "overloaded_error", "message": "too many at once"}})
        elif script.fault is Fault.HANG:
            server.closing.wait()
        elif script.fault is Fault.ENDLESS:
            for _ in itertools.takewhile(lambda _: not server.closing.is_set(), itertools.count()):
                self._event(wire.text("# and so on, for ever\n" * 64))
                time.sleep(0.0005)  # leave the processor to the client
        elif script.fault is Fault.DROP:
            self._event(wire.text(script.text))
        else:
            for start in range(0, len(script.text), 4096):
                self._event(wire.text(script.text[start : start + 4096]))
            for event in wire.tail(script):
                self._event(event)
            if script.usage:
                server.settle(script)

    def _event(self, event: dict[str, Any] | str) -> None:
        if isinstance(event, str):
            self.wfile.write(f"data: {event}\n\n".encode())
            return
        name = f"event: {event['type']}\n" if "type" in event else ""
        self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())


class _Wire:
    """One protocol: the events before, of and after the text, and the whole reply."""

    @staticmethod
    def head(script: Script) -> Iterator[dict[str, Any] | str]:
        raise AssertionError("abstract")

    @staticmethod
    def text(text: str) -> dict[str, Any]:
        raise AssertionError("abstract")

    @staticmethod
    def tail(script: Script) -> Iterator[dict[str, Any] | str]:
        raise AssertionError("abstract")

    @staticmethod
    def whole(script: Script) -> dict[str, Any]:
        raise AssertionError("abstract")


class _OpenAI(_Wire):
    @staticmethod
    def _usage(script: Script) -> dict[str, Any]:
        return {
            "prompt_tokens": script.input_tokens,
            "completion_tokens": script.output_tokens,
            "total_tokens": script.input_tokens + script.output_tokens,
            "prompt_tokens_details": {"cached_tokens": script.cached},
        }

    @staticmethod
    def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}

    @staticmethod
    def head(script: Script) -> Iterator[dict[str, Any] | str]:
        yield _OpenAI._chunk({"role": "assistant", "content": ""})

    @staticmethod
    def text(text: str) -> dict[str, Any]:
        return _OpenAI._chunk({"content": text})

    @staticmethod
    def tail(script: Script) -> Iterator[dict[str, Any] | str]:
        yield _OpenAI._chunk({}, "stop" if script.complete else "length")
        if script.usage:
            yield _OpenAI._chunk({}) | {"choices": [], "usage": _OpenAI._usage(script)}
        yield "[DONE]"

    @staticmethod
    def whole(script: Script) -> dict[str, Any]:
        finish = "stop" if script.complete else "length"
        message = {"role": "assistant", "content": script.text}
        reply: dict[str, Any] = {"id": "c1", "object": "chat.completion", "created": 0, "model": "m"}
        reply["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
        return reply | ({"usage": _OpenAI._usage(script)} if script.usage else {})


class _Anthropic(_Wire):
    @staticmethod
    def _usage(script: Script) -> dict[str, Any]:
        return {
            "input_tokens": script.input_tokens - script.cached - script.cache_write,
            "cache_read_input_tokens": script.cached,
            "cache_creation_input_tokens": script.cache_write,
            "output_tokens": script.output_tokens,
        }

    @staticmethod
    def whole(script: Script) -> dict[str, Any]:
        return {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": script.text}],
            "stop_reason": "end_turn" if script.complete else "max_tokens",
            "stop_sequence": None,
            "usage": _Anthropic._usage(script),
        }

    @staticmethod
    def head(script: Script) -> Iterator[dict[str, Any] | str]:
        message = _Anthropic.whole(script) | {"content": [], "stop_reason": None}
        message["usage"] = _Anthropic._usage(script) | {"output_tokens": 1}
        yield {"type": "message_start", "message": message}
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

    @staticmethod
    def text(text: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}

    @staticmethod
    def tail(script: Script) -> Iterator[dict[str, Any] | str]:
        reason = "end_turn" if script.complete else "max_tokens"
        yield {"type": "content_block_stop", "index": 0}
        usage = {"usage": {"output_tokens": script.output_tokens}}
        yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}} | usage
        yield {"type": "message_stop"}

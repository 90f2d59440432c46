"""Talking to a builder: a confined process that turns the text of one kernel into machine code, and is then ended.

Invariant: as in session.py, what is wrong with the text is a `CandidateFailure`, what is wrong with the machine raises
InfrastructureError. `binaries` keeps what comes back.
"""

from __future__ import annotations

from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.sessions import allowance
from kernelsmith.evaluate.sessions.session import ChildSession
from kernelsmith.outcome import Stage
from kernelsmith.sandbox import roles
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.wire.builds import Built, Identified, Identify, Source
from kernelsmith.sandbox.wire.exchange import BuilderReply, BuilderRequest
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import (
    Broken,
    Failed,
)
from kernelsmith.sandbox.wire.reading import builder_reply

BUILD_SECONDS = 180.0
"""Of the compiler's process; checked builds of large kernels take it tens of seconds."""


class BuilderSession(ChildSession):
    """A process that builds kernels from their text and runs none of them."""

    def __init__(self, zygote: Zygote, pool: ArenaPool) -> None:
        super().__init__(zygote, roles.BUILDER, allowance.ours(BUILD_SECONDS), "compiler", pool)

    def identify(self, seconds: float) -> str:
        """What decides builds beside their text."""
        reply = self._exchange(Identify(), seconds)
        if isinstance(reply, Identified):
            return reply.toolchain
        raise self._garbled(ValueError(f"a {reply.kind} instead of an answer"), Stage.COMPILE)

    def build(self, source: Source, seconds: float) -> Built | Failed:
        """What is wrong with the text comes back as a value."""
        reply = self._exchange(source, seconds)
        if isinstance(reply, Built | Failed):
            return reply
        raise self._garbled(ValueError(f"a {reply.kind} instead of an answer"), Stage.COMPILE)

    def _exchange(self, request: BuilderRequest, seconds: float) -> BuilderReply:
        payload = self._ask(request.model_dump_json().encode(), [], seconds, Stage.COMPILE)
        try:
            reply = builder_reply(payload)
        except ValueError as error:
            raise self._garbled(error, Stage.COMPILE) from None
        if isinstance(reply, Broken):
            raise InfrastructureError(reply.message, reply.hint)
        return reply

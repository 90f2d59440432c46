"""Has the judge build the kernels of this process: the candidate's own calls run what its plan's replay runs.

Triton's front end stays here, and its last stage asks over the judge's channel, in the middle of a request. Invariant:
frames alternate, so whoever waits for the answer to a request sees the question first. The recorder installs it.
"""

from __future__ import annotations

import threading

from kernelsmith.sandbox.wire.builds import Built, Source
from kernelsmith.sandbox.wire.messages import Failed
from kernelsmith.sandbox.wire.protocol import Channel
from kernelsmith.sandbox.wire.reading import builder_reply
from kernelsmith.triton_cpu.run.build import BuildError
from kernelsmith.triton_cpu.run.launch import Binary


class BuildHook:
    """Asks at the other end of `channel`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._turn = threading.Lock()

    def install(self) -> None:
        """From now on, for every kernel that Triton compiles for the CPU in this process."""
        from kernelsmith.triton_cpu.run.obtain import build_with

        build_with(self._ask)

    def _ask(self, ttir: str, fp_fusion: bool) -> Binary:
        with self._turn:
            self._channel.send(Source(ttir=ttir, fp_fusion=fp_fusion).model_dump_json().encode())
            reply = builder_reply(self._channel.receive().payload)
        if isinstance(reply, Built):
            return reply.binary()
        if isinstance(reply, Failed):
            raise BuildError(reply.message)
        raise ValueError(f"a {reply.kind} where a build was asked for")

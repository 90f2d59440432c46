"""The builder role: compiles one kernel's TTIR text into a shared library, and runs none of it.

The text is hostile and this process is thrown away after it, so a text can at worst spoil its own build. Invariant:
every request gets one reply; a text's fault is a `Failed`, a fault of this machine is `Broken`. Called by the zygote.
"""

from __future__ import annotations

from pathlib import Path

from kernelsmith.errors import InfrastructureError, KernelsmithError
from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.wire.builds import Built, Identified, Identify, Source
from kernelsmith.sandbox.wire.exchange import BuilderReply
from kernelsmith.sandbox.wire.messages import (
    Broken,
    Failed,
)
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError
from kernelsmith.sandbox.wire.reading import builder_request
from kernelsmith.triton_cpu.isa import host_isa
from kernelsmith.triton_cpu.run import build, launch

_MESSAGE_CHARS = 4000


def main(channel: Channel, scratch: Path) -> None:
    """Answer requests until the judge hangs up."""
    while True:
        try:
            frame = channel.receive()
            channel.send(answer(frame.payload).model_dump_json().encode())
        except PeerGoneError:
            return


def answer(payload: bytes) -> BuilderReply:
    """Do what was asked. Raises ValueError for a request that is none."""
    request = builder_request(payload)
    try:
        match request:
            case Identify():
                return Identified(toolchain=f"{launch.source_hash()} {build.identification(host_isa())}")
            case Source():
                return _built(request)
    except (InfrastructureError, build.CompilerMissingError) as error:
        return Broken(message=error.message[:_MESSAGE_CHARS], hint=error.hint[:_MESSAGE_CHARS])


def _built(source: Source) -> Built | Failed:
    try:
        binary = launch.build_ttir(source.ttir, host_isa(), fp_fusion=source.fp_fusion, checked=source.checked)
        return Built.of(binary)
    except (InfrastructureError, build.CompilerMissingError):
        raise
    except (KernelsmithError, ValueError) as error:
        return Failed(outcome=Outcome.COMPILE_ERROR, message=str(error)[:_MESSAGE_CHARS])

"""The child's side of the drill: runs the programs that it is sent, one after another.

Invariant: it is no part of any defence: a program may do with this process what it likes. The zygote calls `main`.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError

ROLE = __name__


def main(channel: Channel, scratch: Path) -> None:
    """Answer orders until the judge hangs up: `{"said", "boasts", "loot"}`, or the bytes that a program returns."""
    while True:
        try:
            frame = channel.receive()
        except PeerGoneError:
            return
        order = json.loads(frame.payload)
        world: dict[str, Any] = order["world"]
        stage = SimpleNamespace(channel=channel, scratch=scratch, fds=frame.fds, boasts=[], loot=[], **world)
        program: dict[str, Any] = {"__name__": "program"}
        exec(compile(order["source"], order["name"], "exec"), program)
        said = program[order["part"]](stage)
        reply = said if isinstance(said, bytes) else _reply(said, stage)
        try:
            channel.send(reply)
        except PeerGoneError:
            return


def _reply(said: object, stage: SimpleNamespace) -> bytes:
    return json.dumps({"said": said, "boasts": stage.boasts, "loot": stage.loot}, default=repr).encode()

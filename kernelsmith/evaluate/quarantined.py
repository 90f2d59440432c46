"""Entry of a judge whose operator comes from elsewhere: into quarantine first, torch and the judge after that.

Invariant: nothing of the operator is read before `quarantine.enter` has returned. Started by execute/start.py.
"""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from kernelsmith.errors import KernelsmithError
from kernelsmith.execute.wire import Assigned, Settled
from kernelsmith.sandbox.confine import quarantine
from kernelsmith.sandbox.confine.confine import HOMES
from kernelsmith.sandbox.wire.protocol import Channel


def main(fd: int) -> None:
    """Take the order from the first frame, answer it with how the confinement went, and judge."""
    channel = Channel(socket.socket(fileno=fd), max_fds=0)
    plan = quarantine.Plan.decode(channel.receive().payload)
    assigned = Assigned.model_validate_json(channel.receive().payload)
    package = str(Path(__file__).parents[1])
    try:
        scratch = quarantine.enter(plan, package, fd)
    except (KernelsmithError, OSError) as error:
        hint = error.hint if isinstance(error, KernelsmithError) else ""
        channel.send(Settled(error=str(error), hint=hint).model_dump_json().encode())
        return
    os.chdir(scratch)
    os.environ.update(dict.fromkeys((*HOMES, "XDG_RUNTIME_DIR"), scratch))
    tempfile.tempdir = None
    channel.send(Settled(mounted=scratch != plan.base).model_dump_json().encode())
    from kernelsmith.evaluate import judge
    from kernelsmith.evaluate.rooms import Rooms

    rooms = Rooms(assigned.target, targets=Path(assigned.targets), unsafe_no_sandbox=plan.unsafe)
    judge.run(channel, rooms, assigned.width)

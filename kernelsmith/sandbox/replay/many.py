"""Replays a plan again and again, each time in a workspace as fresh as for one replay. The launcher asks."""

from __future__ import annotations

import random

from kernelsmith.sandbox.replay.replay import Workspace
from kernelsmith.sandbox.wire.many import ReplayedMany, ReplayMany
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.tensors import region_bytes, write_outputs


def replay_many(workspace: Workspace, request: ReplayMany, inputs: Arena, outputs: Arena) -> ReplayedMany:
    """Every run in turn; raises as `Workspace.reset` and `run` do."""
    draw = random.Random(request.seed)
    intact, hurt = True, set[int]()
    for run, once in enumerate(request.runs):
        sizes = [region.nbytes for region in once.content]
        workspace.reset([region_bytes(inputs, region) for region in once.content], once.poison)
        workspace.run(once.order, threads=once.threads, draw=draw)
        intact = intact and workspace.state_intact()
        hurt.update(workspace.overrun())
        left = [region_bytes(outputs, region) for region in request.slots.storages(run, sizes)]
        workspace.write_back(left)
        write_outputs(workspace.outputs, outputs, request.slots.outputs(run, sizes), request.slots.end(run))
    return ReplayedMany(state_intact=intact, overrun=tuple(sorted(hurt)))

"""What the zygote has done once, no child does again."""

from __future__ import annotations

from kernelsmith.sandbox.wire.messages import Loaded
from tests.sandbox.players import Candidate

LOOKING = """
from pathlib import Path
from kernelsmith.triton_cpu.run import launch, pool
from kernelsmith.triton_cpu.watch import monitor

found = [cached.cache_info().currsize for cached in (pool._library, monitor.load, launch._compile_ttir)]
assert all(found), found
assert not list(Path.cwd().rglob("*.so"))
op = len
"""


def test_the_runtime_of_the_cpu_is_there_in_every_child(candidate: Candidate) -> None:
    reply = candidate.load(LOOKING)
    assert isinstance(reply, Loaded), reply

"""What becomes of the shared memory of a child: used again once the child is dead, and only then."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.session import CandidateSession
from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.usage import descendants
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import Load

NBYTES = 1 << 16
ENDLESS = Load(source="import time\ntime.sleep(600)\n", entry="op")


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as opened:
        yield opened


def test_arenas_of_a_dead_child_go_back_to_the_pool(zygote):
    pool = ArenaPool()
    session = CandidateSession(zygote, Limits(), pool)
    arena = session.desk.inputs(NBYTES)
    session.close()
    assert pool.take(NBYTES) is arena and not arena.buffer.closed


def test_arenas_of_a_lost_child_are_dropped(zygote):
    pool = ArenaPool()
    session = CandidateSession(zygote, Limits(), pool)
    arenas = [session.desk.inputs(NBYTES), session.desk.inputs(4 * NBYTES), session.desk.outputs(NBYTES)]
    # the process that forks: below its keeper where it has namespaces of its own
    os.kill(descendants(zygote.pid)[0] if zygote.layers.pid_namespace else zygote.pid, signal.SIGKILL)
    with pytest.raises(InfrastructureError, match="lost the candidate process"):
        session.load(ENDLESS, None, 30.0)
    session.close()
    session.close()
    assert all(arena.buffer.closed and arena.fd == -1 for arena in arenas)
    assert pool.take(NBYTES) not in arenas


GREEDY = "import os\nhoard = b'x' * (64 << 20)\n"
NOISY = "import os\nos.write(1, b'x' * (1 << 16))\n"


@pytest.mark.parametrize(
    ("source", "outcome", "message"),
    [
        (GREEDY + "import time\ntime.sleep(20)\n", Outcome.MEMORY, r"used \d+ MiB of memory, where 48 MiB are allowed"),
        (NOISY * 20 + "import time\ntime.sleep(20)\n", Outcome.SANDBOX_VIOLATION, "printed more than 1 MiB"),
    ],
)
def test_a_broken_limit_is_told_with_what_was_allowed(zygote, source, outcome, message):
    limits = Limits(memory_bytes=48 << 20, log_bytes=1 << 20)
    with closing(CandidateSession(zygote, limits, ArenaPool())) as session:
        with pytest.raises(CandidateFailure, match=f"the candidate {message}") as refused:
            session.load(Load(source=source, entry="op"), None, 30.0)
        assert refused.value.outcome is outcome

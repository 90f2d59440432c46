"""A launcher that lies about time is refused by the judge's own clock, however it lies; one that does not is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from kernelsmith.evaluate.check.check import Checker, Proven
from kernelsmith.evaluate.clock import bench, noise, outer
from kernelsmith.evaluate.clock.bandwidth import Bandwidth
from kernelsmith.evaluate.clock.baseline import ENVIRONMENT
from kernelsmith.evaluate.clock.bench import Bench
from kernelsmith.evaluate.clock.outer import OuterClock
from kernelsmith.evaluate.clock.rivals import Rivals
from kernelsmith.evaluate.room.room import runtime
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.truths import Known, Truths
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import LoadedOperator, load
from kernelsmith.outcome import Outcome
from kernelsmith.sandbox import roles
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import Load
from kernelsmith.targets import resolve
from tests.sandbox.zygotes import ROLES

OPERATOR = '''
"""Repeated exponentials."""
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)

@operator(x=tensor(N), workloads=[workload(N=131_072)])
def settle(x: torch.Tensor) -> torch.Tensor:
    for _ in range(40):
        x = torch.exp(-x)
    return x
'''
KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offsets, mask=offsets < n)
    for _ in range(40):
        v = tl.exp(-v)
    tl.store(y + offsets, v, mask=offsets < n)

def settle(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""
LIMITS = Limits(seconds=300, threads=2)
LIES = (
    "claims_a_tenth",
    "works_before_the_clock",
    "works_after_the_answer",
    "works_when_asked_to_show",
    "runs_one_of_many",
    "keeps_answers",
    "answers_first",
)
"""See roles/overwritten_launcher.py."""


@dataclass
class Place:
    """What a judge keeps between jobs, with a launcher of ours."""

    zygote: Zygote
    operator: LoadedOperator
    pool: ArenaPool
    truths: Truths


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    path: Path = tmp_path_factory.mktemp("operator") / "settle.py"
    path.write_text(OPERATOR)
    environment = {**ENVIRONMENT, "KERNELSMITH_CPU_THREADS": "2", **runtime(resolve("cpu"))}
    preload = (*roles.PRELOAD, "overwritten_launcher")
    with Zygote(preload=preload, warm=roles.WARM, path=[ROLES], environment=environment) as zygote:
        yield Place(zygote, load(OperatorRef(path=str(path)), model_seed=1), ArenaPool(), Truths(1))


@dataclass
class Bout:
    """One candidate against the clock: its plan is proven, and its launcher says how long a replay takes."""

    bench: Bench
    clock: OuterClock
    proven: Proven

    def claims(self) -> list[float]:
        """Nanoseconds of some replays, sorted."""
        lane = self.bench.lane(0, self.proven, ())
        return sorted(self.bench.quick(lane, 1) * 1e6 for _ in range(15))


@pytest.fixture
def bout(place: Place, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bout]:
    """A kernel of the name that is the fixture's parameter."""
    with closing(LauncherSession(place.zygote, LIMITS, place.pool)) as clean:
        monkeypatch.setattr(roles, "LAUNCHER", "overwritten_launcher")
        with (
            closing(LauncherSession(place.zygote, LIMITS, place.pool)) as launcher,
            closing(CandidateSession(place.zygote, LIMITS, place.pool)) as candidate,
        ):
            checker = Checker(place.truths, place.operator, candidate, launcher, seed=3, time=OwnTime(120))
            source = KERNEL.replace("kernel", request.param)
            candidate.load(Load(source=source, entry="settle"), None, 60)
            proven = checker.case(workload_cases(place.operator)[0], keep=True)
            candidate.rest()
            launcher.rest()
            clock = OuterClock(checker, launcher, clean)
            bench = Bench(
                checker, launcher, clock, flush_bytes=1 << 20, bandwidth=Bandwidth(((1 << 20, 2e10),)), seed=3
            )
            yield Bout(bench, clock, proven)


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds, no other program is ever the reason, and a claim that is off is refused however far it is."""
    monkeypatch.setattr(outer, "ROUNDS", 4)
    monkeypatch.setattr(outer, "GROSS", 1.0)
    monkeypatch.setattr(noise, "busy_share", lambda seconds: 0.0)


@pytest.mark.parametrize("bout", LIES, indirect=True)
@pytest.mark.usefixtures("decided")
def test_a_launcher_that_lies_is_refused(bout: Bout) -> None:
    with pytest.raises(CandidateFailure, match="the judge's clock") as refused:
        bout.clock.believed(bout.proven, bout.claims()[0])
    assert refused.value.outcome in {Outcome.SANDBOX_VIOLATION, Outcome.WRONG_VALUES}


@pytest.mark.parametrize("bout", ["kernel"], indirect=True)
def test_a_tenth_of_the_timed_answers_is_compared(bout: Bout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PRECISE", 0.0)  # so that it takes all rounds
    monkeypatch.setattr(bench, "MAX_ROUNDS", 20)
    monkeypatch.setattr(bout.bench, "_outer", None)  # which compares answers of its own
    compared, judged = list[Known](), bout.bench._checker.judged

    def noting(known: Known, returned: list[torch.Tensor], after: list[torch.Tensor]) -> Finding | None:
        compared.append(known)
        return judged(known, returned, after)

    monkeypatch.setattr(bout.bench._checker, "judged", noting)
    lane = bout.bench.lane(0, bout.proven, ())
    rivals = Rivals(OperatorRef(path="none"), model_seed=1, threads=1)  # nobody asks it
    timing = bout.bench.measure(lane, rivals, host_us=0.0, seconds=60.0)
    assert timing.n == 20
    assert len(compared) == len({id(known) for known in compared}) == 3, "two in twenty rounds, and the last"


@pytest.mark.parametrize("bout", ["kernel"], indirect=True)
def test_no_time_is_believed_in_which_no_memory_writes_the_answer(bout: Bout, monkeypatch: pytest.MonkeyPatch) -> None:
    nbytes = 4 * 131_072
    honest = Bandwidth(((nbytes, 2e10), (2 * nbytes, 1e3)))
    monkeypatch.setattr(bout.bench, "_bandwidth", honest)
    assert bout.claims()
    monkeypatch.setattr(bout.bench, "_bandwidth", Bandwidth(((1, 1e3), (2 * nbytes, 1e2))))
    with pytest.raises(CandidateFailure, match="ns or more to write its outputs") as refused:
        bout.claims()
    assert refused.value.outcome is Outcome.SANDBOX_VIOLATION


@pytest.mark.parametrize("bout", ["kernel"], indirect=True)
def test_an_honest_launcher_is_believed(bout: Bout) -> None:
    claimed = bout.claims()[10]
    assert bout.clock.believed(bout.proven, claimed) >= claimed  # more only where other programs never rest


@pytest.mark.parametrize("bout", ["kernel"], indirect=True)
@pytest.mark.usefixtures("decided")
def test_five_microseconds_are_refused_and_do_not_count_where_other_programs_may_be_the_reason(
    bout: Bout, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CandidateFailure, match="by the judge's clock"):
        bout.clock.believed(bout.proven, 5_000)  # for 5,200,000 exponentials
    monkeypatch.setattr(noise, "busy_share", lambda seconds: 0.5)
    assert bout.clock.believed(bout.proven, 5_000) > 10_000


@pytest.mark.parametrize("bout", ["kernel"], indirect=True)
@pytest.mark.usefixtures("decided")
def test_a_claim_that_is_somewhat_off_is_replaced_and_nobody_refused(
    bout: Bout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outer, "GROSS", 1e6)
    assert bout.clock.believed(bout.proven, 5_000) > 10_000

"""Kernels are built once, by a process that runs none of them; nobody but the judge can change what is kept."""

from __future__ import annotations

import contextlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import pytest

from kernelsmith.evaluate.sessions import owntime
from kernelsmith.evaluate.sessions.binaries import Binaries
from kernelsmith.evaluate.sessions.building import BuilderSession
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.plan import MAX_KERNELS, Kernel
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.wire.builds import Built, Source
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import Examine, Examined, Failed, Load
from tests.sandbox.players import roles_zygote

TTIR = """module {
  tt.func public @one(%x: !tt.ptr<f32>) {
    %c = arith.constant 1.000000e+00 : f32
    tt.store %x, %c : !tt.ptr<f32>
    tt.return
  }
}
"""
ONE = Source(ttir=TTIR, fp_fusion=True)


@pytest.fixture(scope="module")
def zygote():
    with roles_zygote() as opened:
        yield opened


class Counted:
    """Starts real builders, and counts them."""

    def __init__(self, zygote: Zygote) -> None:
        self.zygote = zygote
        self.built: list[Source] = []

    def __call__(self) -> BuilderSession:
        session = BuilderSession(self.zygote, ArenaPool())
        build = session.build

        def counted(source, seconds):
            self.built.append(source)
            return build(source, seconds)

        session.build = counted
        return session


@pytest.fixture
def start(zygote):
    return Counted(zygote)


def test_a_text_is_built_once_and_kept_between_judges(start, tmp_path):
    binaries = Binaries(start, tmp_path)
    built = binaries.get(ONE, 60)
    assert built.name == "one" and built.arguments == ("*f32",) and built.code.startswith(b"\x7fELF")
    assert binaries.get(ONE, 60) is built
    assert Binaries(start, tmp_path).get(ONE, 60) == built
    assert start.built == [ONE]


def test_checked_and_plain_builds_and_other_texts_are_apart(start):
    binaries = Binaries(start)
    sources = (ONE, ONE.model_copy(update={"checked": True}), ONE.model_copy(update={"ttir": f"{TTIR} "}))
    assert len({binaries.get(source, 60).code for source in sources}) == 2
    assert start.built == list(sources)


def test_what_does_not_compile_is_said_and_not_kept(start, tmp_path):
    binaries = Binaries(start, tmp_path)
    bad = Source(ttir=TTIR.replace("tt.store", "tt.stare"), fp_fusion=True)
    for _ in range(2):
        refused = binaries.get(bad, 60)
        assert refused.outcome is Outcome.COMPILE_ERROR and "stare" in refused.message
    assert not list(tmp_path.iterdir())


class Slow:
    """A builder that waits to be told what to answer."""

    def __init__(self) -> None:
        self.answers: queue.Queue[object] = queue.Queue()
        self.asked = threading.Semaphore(0)

    def identify(self, seconds):
        return "one"

    def build(self, source, seconds):
        assert seconds > 0
        self.asked.release()
        answer = self.answers.get(timeout=20)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        pass


FAILED = Failed(outcome=Outcome.COMPILE_ERROR, message="no such operation")


@pytest.mark.parametrize(
    ("first", "builds"), [(FAILED, 1), (CandidateFailure(Outcome.TIMEOUT, "slow", stage=Stage.COMPILE), 2)]
)
def test_who_waits_for_anothers_build_shares_its_answer_and_pays_for_none_of_its_time(first, builds):
    """A builder that failed says nothing about the text, so whoever waited has it built."""
    slow = Slow()
    binaries = Binaries(lambda: slow)
    waits = threading.Event()

    @contextlib.contextmanager
    def waiting():
        waits.set()
        yield

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(binaries.get, ONE, 60)
        assert slow.asked.acquire(timeout=20)
        other = threads.submit(binaries.get, ONE, 60, waiting)
        assert waits.wait(20)
        slow.answers.put(first)
        slow.answers.put(FAILED)
        assert other.result(20) is FAILED
        assert (one.exception() or one.result()) is first
    assert 2 - slow.answers.qsize() == builds


def test_a_candidate_pays_for_no_build_but_its_own(monkeypatch):
    """Time stands still for whoever waits, and a limit that is used up is a failure, not a negative limit."""
    session = object.__new__(LauncherSession)
    session._what, session._time = "launcher", OwnTime()
    now = [0.0]
    monkeypatch.setattr(owntime, "time", SimpleNamespace(monotonic=lambda: now[0]))
    left = session._left(5.0, Stage.COMPILE)
    with session._time.excused():
        now[0] += 100
    assert left() == 5
    now[0] += 5
    with pytest.raises(CandidateFailure, match="more than 5 s") as refused:
        left()
    assert refused.value.outcome is Outcome.TIMEOUT


def test_another_toolchain_has_builds_of_its_own_and_memory_is_bounded(start, monkeypatch, tmp_path):
    built = Binaries(start, tmp_path).get(ONE, 60)
    monkeypatch.setattr(BuilderSession, "identify", lambda self, seconds: "another compiler")
    binaries = Binaries(start, tmp_path)
    assert binaries.get(ONE, 60) == built and len(start.built) == 2
    monkeypatch.setattr("kernelsmith.evaluate.sessions.binaries.MEMORY_BYTES", len(built.code))
    binaries.get(ONE.model_copy(update={"ttir": f"{TTIR} "}), 60)
    assert list(binaries._entries.values()) == [binaries.get(ONE.model_copy(update={"ttir": f"{TTIR} "}), 60)]


def test_a_spoilt_file_is_built_again(start, tmp_path):
    built = Binaries(start, tmp_path).get(ONE, 60)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    assert Binaries(start, tmp_path).get(ONE, 60) == built
    assert len(start.built) == 2


def test_the_folder_has_a_bound(start, tmp_path):
    for number in range(3):
        (tmp_path / f"old{number}").write_bytes(bytes(30_000))
    Binaries(start, tmp_path, disk_bytes=60_000).get(ONE, 60)
    left = list(tmp_path.iterdir())
    assert sum(file.stat().st_size for file in left) <= 60_000
    assert any(not file.name.startswith("old") for file in left)


def test_a_full_disk_costs_the_folder_and_no_verdict(start, tmp_path):
    binaries = Binaries(start, tmp_path / "absent")
    with pytest.warns(UserWarning, match="in memory only"):
        assert binaries.get(ONE, 60).name == "one"


ASKING = """
import json, os, struct
def ask(**question):
    payload = json.dumps({"kind": "source", "ttir": TTIR, "fp_fusion": True, **question}).encode()
    os.write(3, struct.pack("=II", len(payload), 0) + payload)
    size, _ = struct.unpack("=II", os.read(3, 8))
    while size:
        size -= len(os.read(3, size))
"""


@pytest.mark.parametrize(
    "questions", [f"for _ in range({MAX_KERNELS + 1}): ask()", "ask(checked=True)"], ids=["many", "checked"]
)
def test_a_candidate_asks_within_bounds(zygote, start, questions):
    session = CandidateSession(zygote, Limits(), ArenaPool(), Binaries(start))
    source = f"TTIR = {TTIR!r}\n{ASKING}\n{questions}\ndef op(x): return x\n"
    with closing(session), pytest.raises(CandidateFailure) as refused:
        session.load(Load(source=source, entry="op"), None, 60)
    assert refused.value.outcome is Outcome.SANDBOX_VIOLATION
    assert len(start.built) <= 1


class Refusing(LauncherSession):
    """A launcher that notes what it is given; the first question is left without an answer."""

    def __init__(self, binaries: Binaries) -> None:
        self._what, self._time, self._binaries, self._given = "launcher", OwnTime(), binaries, set()
        self._kernels = {1: (kernel("one"), kernel("two"))}
        self.build_seconds = 0.0
        self.given: list[tuple[object, ...]] = []

    def _exchange(self, request, fds, seconds, stage, kind):
        self.given.append(request.built)
        if len(self.given) == 1:
            raise CandidateFailure(Outcome.MEMORY, "no room", stage=stage)
        return Examined(faults=())


def kernel(ttir: str) -> Kernel:
    return Kernel.model_construct(name=ttir, ttir=ttir, options={})


def test_a_launcher_counts_as_given_only_what_went_with_an_answer():
    slow, built = Slow(), Built.model_construct(code=b"", name="any")
    launcher = Refusing(Binaries(lambda: slow))
    request = Examine.model_construct(plan_id=1, built=())
    for answer in (built, FAILED):
        slow.answers.put(answer)
    with pytest.raises(CandidateFailure, match="no such operation"):
        launcher.examine(request, SimpleNamespace(fd=-1), seconds=60)
    assert not launcher.given
    slow.answers.put(built)
    with pytest.raises(CandidateFailure, match="no room"):
        launcher.examine(request, SimpleNamespace(fd=-1), seconds=60)
    launcher.examine(request, SimpleNamespace(fd=-1), seconds=60)
    launcher.examine(request, SimpleNamespace(fd=-1), seconds=60)
    assert launcher.given == [(built, built), (built, built), (None, None)]

"""Kernels are built once, by a process that runs none of them; nobody but the judge can change what is kept."""

from __future__ import annotations

import pytest

from kernelsmith.evaluate.sessions.binaries import Binaries
from kernelsmith.evaluate.sessions.building import BuilderSession
from kernelsmith.evaluate.sessions.session import CandidateFailure, CandidateSession
from kernelsmith.outcome import Outcome
from kernelsmith.plan import MAX_KERNELS
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.wire.builds import Source
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import Load
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
        with pytest.raises(CandidateFailure) as refused:
            binaries.get(bad, 60)
        assert refused.value.outcome is Outcome.COMPILE_ERROR and "stare" in refused.value.message
    assert not list(tmp_path.iterdir())


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
    with pytest.raises(CandidateFailure) as refused:
        session.load(Load(source=source, entry="op"), None, 60)
    session.close()
    assert refused.value.outcome is Outcome.SANDBOX_VIOLATION
    assert len(start.built) <= 1

"""Cards that hang: who is charged, what is marked, and how a card comes back. Hanging processes and marks are real."""

from __future__ import annotations

import functools
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith import resources
from kernelsmith.base import digest
from kernelsmith.devices import marks
from kernelsmith.devices.cards import Card
from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate import evaluate as evaluating
from kernelsmith.evaluate import rooms as moving
from kernelsmith.evaluate.room import room as opening
from kernelsmith.evaluate.room.attendant import Trouble
from kernelsmith.evaluate.rooms import Rooms
from kernelsmith.evaluate.sessions.stuck import StuckError
from kernelsmith.execute import DeviceLostError
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.sandbox.children import zygote
from kernelsmith.sandbox.children.zygote import Child, Zygote
from kernelsmith.sandbox.limits import Ending, Exit
from kernelsmith.sandbox.roles import CANDIDATE
from tests.evaluate.test_evaluate import HOST, OPERATOR, RIGHT, host
from tests.sandbox.withheld import Withheld
from tests.waiting import until

PASSED = Evaluation(outcome=Outcome.PASSED, stage=Stage.CHECK)
DEVICES = Path(__file__).parents[1] / "devices"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(moving, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(moving, "FIRST_PAUSE", 0.05)


def targets_with(tmp_path: Path, cards: str) -> Path:
    """A folder with the target of a device that has these cards."""
    text = resources.read("targets", "cpu.toml").replace('name = "cpu"', 'name = "stand-in"')
    text = text.replace('torch_device = "cpu"', 'torch_device = "stand"\nmodule = "stand_in"')
    text = text.replace("[sources]", '[sources]\naccess = "a test"')
    (tmp_path / "stand-in.toml").write_text(text.replace("[limits]", f'[access]\ncards = "{cards}"\n\n[limits]'))
    return tmp_path


class Scene:
    """Rooms without processes, on two cards; a job does what its source says to the card that it is on."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = targets_with(tmp_path, "/dev/[fz][ue][lr][lo]")
        self.hung: list[subprocess.Popen[bytes]] = []
        self.closed: list[str] = []
        self.refuses = ""
        self.unwell: Trouble | None = None
        self.met: set[str] = set()
        self.together = threading.Barrier(2)
        self.slowly = threading.Event()
        monkeypatch.setattr(evaluating, "evaluate", self.evaluate)

    def rooms(self) -> Rooms:
        return Rooms("stand-in", targets=self.folder, make=self.open)  # type: ignore[arg-type]

    def open(self, card: Card) -> StandInRoom:
        return StandInRoom(card, self)

    def evaluate(self, job: Job, room: StandInRoom, tell: object = None) -> Evaluation:
        if job.source in ("meet and hang", "meet") and job.source not in self.met:
            self.met.add(job.source)
            self.together.wait(20)
            raise self.stuck()
        if job.source in ("hang", "meet and hang"):
            raise self.stuck()
        if job.source == "slow" and not self.met:
            self.met.add(job.source)
            self.slowly.wait(20)
            return Evaluation(outcome=Outcome.TIMEOUT, stage=Stage.CHECK, message="did not finish within 60 s")
        return PASSED

    def stuck(self) -> StuckError:
        self.hung.append(subprocess.Popen(["sleep", "600"]))
        return StuckError("launcher", Exit(Ending.STUCK, survivor=self.hung[-1].pid))

    def let_go(self) -> None:
        for process in self.hung:
            process.kill()
            process.wait()


class StandInRoom:
    confinement = None

    def __init__(self, card: Card, scene: Scene) -> None:
        self.card = card
        self._scene = scene

    @property
    def unwell(self) -> Trouble | None:
        return self._scene.unwell if self.card.index == 0 else None

    def probe(self, pid: int | None = None) -> None:
        if self._scene.refuses:
            raise InfrastructureError(self._scene.refuses)

    def close(self) -> None:
        self._scene.closed.append(self.card.name)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    yield made
    made.let_go()


def job(source: str) -> Job:
    return Job(operator=OperatorRef(path="op.py"), target="stand-in", source=source, seed=1)


def test_what_hangs_two_cards_is_charged_and_nothing_is_left(scene: Scene) -> None:
    rooms = scene.rooms()
    verdict = rooms.evaluate(job("hang"))
    assert (verdict.outcome, [mark.device for mark in verdict.given_up]) == (Outcome.TIMEOUT, ["stand:0", "stand:1"])
    assert "the device had to be given up" in verdict.message
    assert {mark.candidate for mark in verdict.given_up} == {digest("hang")}
    assert [mark.pid for mark in verdict.given_up] == [process.pid for process in scene.hung]
    with pytest.raises(DeviceLostError, match=r"stand:0 was given up at .*stand:1 was given up") as lost:
        rooms.evaluate(job("right"))
    assert lost.value.given_up == verdict.given_up
    assert str(marks.file_of("stand:0", "bad")) in lost.value.hint
    assert until(lambda: sorted(scene.closed) == ["stand:0", "stand:1"]), "rooms on bad cards are closed"
    rooms.close()


def test_the_next_job_goes_on_with_another_card_and_the_first_comes_back(scene: Scene) -> None:
    rooms = scene.rooms()
    assert rooms.room().card.name == "stand:0"
    evaluating_once = scene.evaluate

    def hang_once(given: Job, room: StandInRoom, tell: object) -> Evaluation:
        return evaluating_once(given if room.card.index == 0 else job("right"), room)

    evaluating.evaluate = hang_once  # type: ignore[assignment]
    verdict = rooms.evaluate(job("hang"))
    assert verdict.outcome is Outcome.PASSED, "one that hung one card only is not charged"
    assert [mark.device for mark in verdict.given_up] == ["stand:0"]
    assert rooms.room().card.name == "stand:1" and marks.read("stand:0") == verdict.given_up[0]
    scene.let_go()
    assert until(lambda: marks.read("stand:0") is None), "the process has died and the card answers"
    assert rooms.room().card.name == "stand:1"
    assert rooms.evaluate(job("right")).given_up == ()
    rooms.close()


def test_who_was_on_the_card_when_another_hung_it_is_not_charged(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "PATIENCE_SECONDS", 60.0)
    rooms = scene.rooms()
    verdicts: dict[str, Evaluation] = {}

    def judged(source: str) -> None:
        verdicts[source] = rooms.evaluate(job(source))

    threads = [threading.Thread(target=judged, args=(source,)) for source in ("meet", "meet and hang")]
    for thread in threads:
        thread.start()
    # whichever is tried again first: where the culprit is, no card is left until its process dies
    assert until(lambda: len(scene.hung) >= 3)
    scene.let_go()
    for thread in threads:
        thread.join(20)
    assert verdicts["meet and hang"].outcome is Outcome.TIMEOUT
    assert verdicts["meet"].outcome is Outcome.PASSED
    rooms.close()


def test_who_fails_on_a_card_that_another_hung_meanwhile_is_judged_again(scene: Scene) -> None:
    rooms = scene.rooms()
    verdicts: list[Evaluation] = []
    slow = threading.Thread(target=lambda: verdicts.append(rooms.evaluate(job("slow"))))
    slow.start()
    assert until(lambda: "slow" in scene.met)
    rooms._abandon(rooms.room(), marks.new("stand:0", "another job hung it"))
    scene.slowly.set()
    slow.join(20)
    assert verdicts == [PASSED]
    rooms.close()


def test_a_card_with_leftovers_is_left_and_its_empty_room_closed(scene: Scene) -> None:
    rooms = scene.rooms()
    assert rooms.room().card.name == "stand:0"
    ended = subprocess.Popen(["true"])
    ended.wait()
    scene.refuses = "the driver still lists it"
    scene.unwell = Trouble("stand:0 still holds 300 MiB for a process that has ended", ended.pid)
    assert rooms.evaluate(job("right")).given_up == (), "no candidate of the new room is concerned"
    assert rooms.room().card.name == "stand:1"
    mark = marks.read("stand:0")
    assert mark is not None and mark.pid == ended.pid
    assert until(lambda: "stand:0" in scene.closed)
    scene.refuses, scene.unwell = "", None
    assert until(lambda: marks.read("stand:0") is None)
    rooms.close()


def test_a_later_run_says_that_the_card_is_still_bad_and_probes_it_once_it_is_free(scene: Scene) -> None:
    rooms = scene.rooms()
    rooms.evaluate(job("hang"))
    rooms.close()
    with pytest.raises(DeviceLostError, match="stand:0 was given up"):
        scene.rooms().room()
    scene.let_go()
    scene.refuses = "the probe died of SIGBUS"
    with pytest.raises(DeviceLostError, match="it does not answer: the probe died of SIGBUS"):
        scene.rooms().room()
    scene.refuses = ""
    assert scene.rooms().room().card.name == "stand:0"
    assert marks.read("stand:0") is None


def test_the_cpu_cannot_be_given_up(scene: Scene) -> None:
    rooms = Rooms("cpu", make=scene.open)  # type: ignore[arg-type]
    with pytest.raises(StuckError, match="does not die"):
        rooms.evaluate(job("hang"))
    assert marks.read("cpu") is None
    assert rooms.evaluate(job("right")) == PASSED


def test_a_mark_of_an_earlier_boot_or_of_another_process_counts_no_more() -> None:
    mark = marks.write(marks.new("stand:0", "it hung", pid=1))
    assert marks.held(mark) and marks.read("stand:0") == mark
    assert not marks.held(mark.model_copy(update={"born": 12345678}))
    path = marks.file_of("stand:0", "bad")
    path.write_text(mark.model_copy(update={"boot": "another"}).model_dump_json())
    assert marks.read("stand:0") is None
    path.write_text("{")
    with pytest.raises(InfrastructureError, match="cannot be read"):
        marks.read("stand:0")


def test_a_real_hang_costs_the_card_until_its_process_has_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate spins, is killed, and does not die; then it does, and the card is probed and used again."""
    monkeypatch.setattr(zygote, "_DEATH_SECONDS", 0.5)
    monkeypatch.setattr(moving, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(opening, "Zygote", functools.partial(Zygote, path=[str(DEVICES)]))
    held: list[Withheld] = []
    spawn = Zygote.spawn

    def spawn_withheld(self: Zygote, role: str, **more: object) -> Child:
        child = spawn(self, role, **more)  # type: ignore[arg-type]
        if role == CANDIDATE and not held:
            held.append(Withheld(child.pid).__enter__())
        return child

    monkeypatch.setattr(Zygote, "spawn", spawn_withheld)
    (tmp_path / "blend.py").write_text(OPERATOR)
    rooms = Rooms("stand-in", targets=targets_with(tmp_path, "/dev/zer[o]"))

    def judge(source: str, seconds: float) -> Evaluation:
        ref = OperatorRef(path=str(tmp_path / "blend.py"))
        return rooms.evaluate(
            Job(operator=ref, target="stand-in", source=source, seed=7, bench=False, checked=False, seconds=seconds)
        )

    def release() -> None:
        until(lambda: marks.read("stand:0") is not None)
        held[0].release()

    releasing = threading.Thread(target=release)
    releasing.start()
    spinning = judge(RIGHT + host("while True:\n    pass"), 0.5)
    releasing.join()
    assert spinning.outcome is Outcome.TIMEOUT and "given up" not in spinning.message, "the second time it could die"
    (mark,) = spinning.given_up
    assert "process" in mark.why and "does not die" in mark.why
    assert marks.read("stand:0") is None
    assert judge(RIGHT + HOST, 60.0).outcome is Outcome.PASSED
    rooms.close()


def test_a_room_that_is_closed_keeps_no_arena() -> None:
    room = opening.Room("cpu")
    arena = room.arenas.take(1 << 16)
    room.arenas.give_back(arena)
    room.close()
    assert arena.fd == -1 and arena.buffer.closed

"""What a judge keeps between jobs on a card: the zygote, the gate, operators, their truths and their baselines."""

from __future__ import annotations

import functools
import json
import os
import tempfile
import threading
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from kernelsmith import toolchains
from kernelsmith.base import digest
from kernelsmith.compiled import Chip
from kernelsmith.config import installed_versions
from kernelsmith.devices import cards, marks
from kernelsmith.devices.cards import Card
from kernelsmith.devices.health import health_of
from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.clock.bandwidth import MEMORY_BYTES, Bandwidth, copy_bandwidth
from kernelsmith.evaluate.clock.baseline import ENVIRONMENT
from kernelsmith.evaluate.clock.gate import DeviceGate
from kernelsmith.evaluate.clock.rivals import Rivals
from kernelsmith.evaluate.room.admission import Admission
from kernelsmith.evaluate.room.attendant import Attendant, Trouble
from kernelsmith.evaluate.room.fronts import Fronts
from kernelsmith.evaluate.sessions import allowance
from kernelsmith.evaluate.sessions.binaries import Binaries, cache_folder
from kernelsmith.evaluate.sessions.building import BuilderSession
from kernelsmith.evaluate.sessions.stuck import StuckError
from kernelsmith.evaluate.truth.dynamic import refuse_dynamic
from kernelsmith.evaluate.truth.trivial import refuse_trivial
from kernelsmith.evaluate.truth.truths import LIMIT_BYTES, Truths
from kernelsmith.model import Confinement, OperatorRef, Seed
from kernelsmith.offline import ascend, intel
from kernelsmith.offline import builds as offline
from kernelsmith.offline.builds import Builds
from kernelsmith.operators.load import LoadedOperator, load
from kernelsmith.sandbox import machine
from kernelsmith.sandbox.children.zygote import Child, ChildEnded, Zygote
from kernelsmith.sandbox.limits import Ending, Layer, Limits
from kernelsmith.sandbox.roles import BUILT, PRELOAD, PROBE, RECORDING, WARM
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.tensors import torch_threads
from kernelsmith.targets import Offline, Target, available, resolve
from kernelsmith.targets import load as load_target
from kernelsmith.triton_cpu.run.build import find_compiler
from kernelsmith.triton_cpu.run.cores import usable_cores

PROCESSOR = "cpu"
"""The target of checked builds."""
OPERATOR_FILE = "operator.py"
"""What a text that came without its file is called."""
TRIVIAL_SEED = 0
PROBE_SECONDS = 30.0
"""For a context and a tiny kernel; creating the first context of a driver takes seconds."""
MODEL_SEED = 42
"""Under which `Model` and `ModelNew` are constructed (KernelBench's own default)."""

TOLD = {Offline.ASCEND: ascend.told, Offline.XPU: intel.told}
"""By family, what a compiler's process is told of its toolchain."""
KEPT_SHARE = 1 / 8
"""Of the machine's memory, the most that truths may take, and arenas that nobody uses."""


def with_home(path: str) -> str:
    """An interpreter is of use with its library only, which lies around it."""
    return str(Path(path).resolve().parents[1]) if Path(path).is_file() else path


def runtime(target: Target) -> dict[str, str]:
    """What tells a zygote where the compiled runtime of the CPU backend is: compiled once on a machine."""
    if target.torch_device != "cpu":
        return {}
    from kernelsmith.triton_cpu.run import pool  # late: describing an operator needs none of it
    from kernelsmith.triton_cpu.watch import monitor

    return {BUILT: os.pathsep.join(str(path) for path in (pool.library_path(), monitor.library_path()))}


class Room:
    """One card and what there is for it, shared by the judge's threads."""

    def __init__(
        self,
        target: str,
        *,
        targets: Path | None = None,
        unsafe_no_sandbox: bool = False,
        card: Card | None = None,
        without: Collection[Layer] = (),
    ) -> None:
        """`card`: the one to work on, by default the first. Raises UsageError where the target has none here."""
        self.target: Target = resolve(target, targets)
        self.card = card or cards.present(self.target)[0]
        self.threads = usable_cores()
        self.gate = DeviceGate(self.card.name)
        kept = int(KEPT_SHARE * machine.total_bytes())
        self.truths = Truths(self.threads, min(LIMIT_BYTES, kept))
        self.arenas = ArenaPool(max_idle_bytes=kept)
        self.admission = Admission(marks.own_folder(), self.threads, [self.arenas])
        self.binaries = Binaries(self._builder, cache_folder()) if self.target.torch_device == "cpu" else None
        """Of kernels for the CPU; the processes of other devices compile for themselves."""
        self._targets = targets
        self._host: Room | None = None
        self.builds = Builds(self._spawn, allowance.ours(2 * offline.SECONDS), offline.cache_folder())
        """Of kernels for chips that need not be here."""
        self._unsafe = unsafe_no_sandbox
        health = health_of(self.target)
        self._attendant = Attendant(health, self.card, lambda: self.gate.alone) if health else None
        self._without = tuple(without)
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        """Held while the operator's own code runs, which may never end: `close` does not wait for it."""
        self._zygote: Zygote | None = None
        self._fronts = Fronts(self._front, lambda: [self.described(name) for name in available(targets)])
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._operators: dict[str, LoadedOperator] = {}
        self._rivals: dict[str, Rivals] = {}
        self._sizes: dict[str, allowance.Sizes] = {}
        torch.set_num_threads(1)  # jobs share the cores with each other and with their candidates

    def described(self, name: str) -> Target:
        """Another target, from the same folders."""
        return load_target(name, self._targets)

    @property
    def host(self) -> Room:
        """This machine's processor, on which kernels for the card run with checked builds before it meets them."""
        with self._lock:
            if self._host is None:
                self._host = Room(
                    PROCESSOR, targets=self._targets, unsafe_no_sandbox=self._unsafe, without=self._without
                )
            return self._host

    @functools.cached_property
    def bandwidth(self) -> Bandwidth:
        """What the device is measured to move, once per room."""
        if self.card.node is not None:
            with self.gate.exclusive():
                return Bandwidth(((MEMORY_BYTES, self.probe()),))
        with self.gate.exclusive(), torch_threads(self.threads):
            return copy_bandwidth()

    @functools.cached_property
    def versions(self) -> dict[str, str]:
        """Of what a verdict depends on; where kernels are built for the CPU, of the C++ compiler too."""
        compiler = {} if self.binaries is None else {"compiler": find_compiler().version}
        return installed_versions() | compiler

    @property
    def flush_bytes(self) -> int:
        """Written before every timed call, to empty the caches."""
        return self.target.cache_flush_bytes

    @property
    def zygote(self) -> Zygote:
        """Started when first needed: describing an operator needs none."""
        with self._lock:
            if self._zygote is None:
                info = self.target.triton
                compilers = self._compilers()
                self._zygote = Zygote(
                    preload=(*PRELOAD, *filter(None, [self.target.plugin]), self.target.module),
                    warm=WARM if info.backend == "cpu" or info.arch is not None else "",
                    readable=(*cards.readable(self.target, self.card), *map(with_home, compilers.values())),
                    environment={**self._environment(), **compilers, **cards.variables(self.target)},
                    unsafe=self._unsafe,
                    without=self._without,
                )
            return self._zygote

    def recording(self, front: Chip | None) -> Zygote:
        """Where candidates are recorded: with this chip's own front end, or None: with that of kernelsmith's Triton."""
        return self.zygote if front is None else self._fronts.of(front)

    def has_front(self, chip: Chip) -> bool:
        """Whether the chip's own front end is here."""
        return self._fronts.has(chip)

    def _front(self, warm: str, place: Path, more: dict[str, str]) -> Zygote:
        return Zygote(
            preload=RECORDING,
            warm=warm,
            path=(str(place),),
            environment={**self._environment(), **more},
            unsafe=self._unsafe,
            without=self._without,
        )

    def _environment(self) -> dict[str, str]:
        return {**ENVIRONMENT, "KERNELSMITH_CPU_THREADS": str(self.threads), **runtime(self.target)}

    def _compilers(self) -> dict[str, str]:
        """What a compiler's process is told of the toolchains for other chips."""
        if not toolchains.recorded():
            return {}
        found = dict[str, str]()
        for target in map(self.described, available(self._targets)):
            if target.offline in TOLD and (there := toolchains.installed(target)) is not None:
                found |= TOLD[target.offline](there)
        return found

    @property
    def confinement(self) -> Confinement:
        """What keeps this judge's candidates in."""
        layers = self.zygote.layers
        return Confinement(unsafe_no_sandbox=self._unsafe, sound=layers.sound, held=layers.held, missing=layers.missing)

    def _spawn(self, role: str, limits: Limits, label: str) -> Child:
        return self.zygote.spawn(role, limits=limits, label=label)

    def _builder(self) -> BuilderSession:
        return BuilderSession(self.zygote, self.arenas)

    def operator(self, ref: OperatorRef) -> LoadedOperator:
        key = ref.model_dump_json()
        with self._loading:
            if key not in self._operators:
                operator = load(self._placed(ref), model_seed=MODEL_SEED)
                refuse_dynamic(operator, TRIVIAL_SEED)
                refuse_trivial(operator, TRIVIAL_SEED)
                self._operators[key] = operator
            return self._operators[key]

    def sizes(self, operator: LoadedOperator) -> allowance.Sizes:
        """Of the operator's largest workload; raises OperatorError if the reference fails on one."""
        with self._loading:
            if operator.info.digest not in self._sizes:
                self._sizes[operator.info.digest] = allowance.largest(operator)
            return self._sizes[operator.info.digest]

    def rivals(self, ref: OperatorRef) -> Rivals:
        key, placed = ref.model_dump_json(), self._placed(ref)
        with self._lock:
            if key not in self._rivals:
                self._rivals[key] = Rivals(
                    placed,
                    model_seed=MODEL_SEED,
                    threads=self.threads,
                    environment=cards.host_variables(self.target, self.card),
                )
            return self._rivals[key]

    def seeds(self, ref: OperatorRef) -> tuple[Seed, ...]:
        return self.rivals(ref).lift()

    @property
    def unwell(self) -> Trouble | None:
        """Why the card should not be used; None as long as nothing is known against it."""
        return self._attendant.unwell if self._attendant else None

    def notes(self) -> tuple[str, ...]:
        """What was noticed on the card."""
        return self._attendant.take_notes() if self._attendant else ()

    def attended(self, *children: Child, nbytes: int | None) -> AbstractContextManager[None]:
        """Hold the children to so many bytes of the card's memory, each."""
        if self._attendant is None or nbytes is None:
            return nullcontext()
        return self._attendant.attending(dict.fromkeys(children, nbytes))

    def probe(self, pid: int | None = None) -> float:
        """Have the device do a little work in a process of its own, and see that the driver has let go of process
        `pid`; returns the bytes per second that a copy reads and writes.

        Raises InfrastructureError where it is not so, a StuckError where its process cannot even be ended.
        """
        health = health_of(self.target)
        if health is not None and any(use.pid == pid for use in health.uses(self.card)):
            raise InfrastructureError(f"the driver still lists process {pid}")
        with self.zygote.spawn(PROBE, limits=allowance.ours(2 * PROBE_SECONDS, on_card=True), label="probe") as child:
            try:
                return float(json.loads(child.request(b"{}", seconds=PROBE_SECONDS).payload))
            except ChildEnded as ended:
                if ended.exit.ending is Ending.STUCK:
                    raise StuckError("probe", ended.exit) from None
                last = (ended.exit.log.strip().splitlines() or [""])[-1]
                raise InfrastructureError(f"the probe {ended.exit.describe()}: {last}") from None

    def _placed(self, ref: OperatorRef) -> OperatorRef:
        """With a text that came along written to a file: compilers and tracebacks want one."""
        if ref.text is None:
            return ref
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="kernelsmith-operator-")
            path = Path(self._folder.name) / digest(ref.text) / OPERATOR_FILE
            if not path.exists():
                path.parent.mkdir()
                path.write_text(ref.text, encoding="utf-8")
        return ref.model_copy(update={"path": str(path), "text": None})

    def close(self) -> None:
        if self._attendant is not None:
            self._attendant.close()
        with self._lock:
            if self._folder is not None:
                self._folder.cleanup()
            for rivals in self._rivals.values():
                rivals.close()
            if self._zygote is not None:
                self._zygote.close()
        self._fronts.close()
        self.arenas.release()
        if self._host is not None:
            self._host.close()

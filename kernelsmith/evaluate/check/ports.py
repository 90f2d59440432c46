"""The candidate's kernels compiled for chips that are not here, each as it is launched on the tuned workloads.

Invariant: nothing is run for them but one more recorded call per workload; what comes back are builds, which
`offline.fit` holds against a target's limits. Autotuned kernels are compiled with the configuration that won on the
workload, or where nothing was measured with the one that an ordinary call takes, and with every other one where that
was asked for. Asked by `evaluate` once the candidate has passed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.base import digest
from kernelsmith.compiled import MOST_CHARS, Build, Chip, Found
from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.sessions.failure import FATAL, CandidateFailure
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.offline.builds import Builds
from kernelsmith.offline.lint import found_in_source, keywords_in
from kernelsmith.offline.wire import Compiled, Inspected
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Stage
from kernelsmith.plan import ASCEND_OPTIONS, Kernel, Launch, LaunchPlan, PointerArgument
from kernelsmith.sandbox.wire.messages import Choice, Failed, Tunable

_LOWERED_ELSEWHERE = frozenset({"npu"})
"""Backends of which no front end is here: their own tools lower the TTIR of the recording."""
MOST_CONFIGS = 64
"""Of one autotuned kernel that are compiled, where every one is asked for."""
_NOTHING = Inspected(found=(), runs=())


@dataclass
class _Port:
    """A kernel for a chip, and all its launches."""

    name: str
    chip: Chip
    made: Kernel | Failed
    taken: bool
    inspected: Inspected = _NOTHING
    configs: dict[str, None] = field(default_factory=dict)
    workloads: dict[str, None] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)

    def build(self, became: Compiled | Failed, named: Collection[str]) -> Build:
        """With what became of it, and of its options those that somebody `named`."""
        end: dict[str, Any]
        grids = [launch.grid for launch in self.launches] or [(1, 1, 1)]
        pointers = [a for launch in self.launches for a in launch.arguments if isinstance(a, PointerArgument)]
        if isinstance(became, Failed):
            end = {"outcome": became.outcome, "message": became.message[:MOST_CHARS], "line": became.line}
        else:
            end = {"resources": became.resources, "seconds": became.seconds}
        return Build(
            kernel=self.name,
            workloads=tuple(self.workloads),
            grid=(max(g[0] for g in grids), max(g[1] for g in grids), max(g[2] for g in grids)),
            programs=max(x * y * z for x, y, z in grids),
            dtypes=tuple(sorted({pointer.view.dtype for pointer in pointers})),
            options={n: v for n, v in self.made.options.items() if n in named} if isinstance(self.made, Kernel) else {},
            chip=self.chip,
            constructs=self.inspected.found,
            runs=self.inspected.runs,
            configs=tuple(self.configs),
            taken=self.taken,
            **end,
        )


@dataclass(frozen=True)
class Recorded:
    """A tuned workload, what the candidate asks for on it, and its kernels as each chip's front end makes them."""

    case: Case
    plan: LaunchPlan
    made: Mapping[Chip, Sequence[Kernel | Failed]]
    choices: tuple[Choice, ...] = ()
    """Configurations of its autotuned kernels."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The same in words, by the kernel's name."""
    taken: bool = True
    """By an ordinary call; otherwise one of the other configurations."""

    @property
    def label(self) -> str:
        return self.case.workload.label if self.case.workload is not None else ""


class Recording:
    """Calls the candidate again on its tuned workloads. A candidate lowers only what it has recorded last."""

    def __init__(self, checker: Checker, chips: Sequence[Chip], tunables: Sequence[Tunable] = ()) -> None:
        self._checker = checker
        self._chips = chips
        self._configs = {tunable.kernel: tunable.configs for tunable in tunables}

    def all(
        self, operator: LoadedOperator, picks: Mapping[str, Sequence[Choice]], *, every: bool = False
    ) -> tuple[Recorded, ...]:
        """Every workload once, with `picks`, the configurations that won, by its label; then, if `every` one is asked
        for, with the others that can be called. Raises CandidateFailure where the candidate does not answer as before.
        """
        found = list[Recorded]()
        others = list[Recorded]()
        for case in workload_cases(operator):
            label = case.workload.label if case.workload is not None else ""
            found.append(first := self._one(case, picks.get(label, ())))
            for vector in self._others(first.choices) if every else ():
                try:
                    others.append(self._one(case, vector, taken=False))
                except CandidateFailure as failure:
                    if failure.outcome in FATAL:
                        raise
                    # The check or the clock tells of it, and an autotuner passes over it.
        return (*found, *others)

    def _one(self, case: Case, choices: Sequence[Choice], *, taken: bool = True) -> Recorded:
        called = self._checker.recorded(case, choices)
        assert called.plan is not None
        made = {chip: self._lowered(called.plan, chip) for chip in self._chips}
        used = tuple(choice for choice in called.choices if choice.kernel in self._configs)
        texts = {_kernel(choice): self._configs[choice.kernel][choice.config] for choice in used}
        return Recorded(case, called.plan, made, used, texts, taken)

    def _others(self, used: Sequence[Choice]) -> Iterator[tuple[Choice, ...]]:
        """One kernel's configuration changed at a time."""
        for one in used:
            for index in range(min(len(self._configs[one.kernel]), MOST_CONFIGS)):
                if index != one.config:
                    changed = Choice(kernel=one.kernel, config=index)
                    yield tuple(changed if choice is one else choice for choice in used)

    def _lowered(self, plan: LaunchPlan, chip: Chip) -> Sequence[Kernel | Failed]:
        if chip.backend in _LOWERED_ELSEWHERE:
            return plan.kernels
        return self._checker.candidate.lower(plan, chip, self._checker.remaining(Stage.COMPILE))


def _kernel(choice: Choice) -> str:
    """The function's name: tuners of equal names are numbered."""
    return choice.kernel.partition("#")[0]


def fingerprint(found: Sequence[Recorded]) -> str:
    """Equal for candidates whose launches were the same on every workload."""
    return digest(*(f"{one.label} {one.plan.digest}" for one in found))


def ported(found: Sequence[Recorded], checker: Checker, builds: Builds, source: str = "") -> tuple[Build, ...]:
    """A build per distinct kernel and chip; `source` is looked through for what TTIR does not show."""
    by_text: dict[str, _Port] = {}
    for one in found:
        for chip, made in one.made.items():
            for number, (kernel, lowered) in enumerate(zip(one.plan.kernels, made, strict=True)):
                key = digest(chip.label, kernel.name, _decides(lowered, chip))
                port = by_text.setdefault(key, _Port(kernel.name, chip, lowered, taken=one.taken))
                port.workloads[one.label] = None
                port.launches += launches(one.plan, number)
                if text := one.texts.get(kernel.name):
                    port.configs[text] = None
    ports, named = list(by_text.values()), keywords_in(source)
    with checker.excused():
        _inspect(ports, builds, found_in_source(source))
        compiled = iter(builds.all([(port.made, port.chip) for port in ports if isinstance(port.made, Kernel)]))
    return tuple(port.build(next(compiled) if isinstance(port.made, Kernel) else port.made, named) for port in ports)


def _decides(made: Kernel | Failed, chip: Chip) -> str:
    """What a build depends on: where most launch options mean nothing, the text and the others."""
    if isinstance(made, Failed) or chip.backend not in _LOWERED_ELSEWHERE:
        return made.model_dump_json()
    options = {name: value for name, value in made.options.items() if name in ASCEND_OPTIONS}
    return made.model_copy(update={"options": options}).model_dump_json()


def _inspect(ports: Sequence[_Port], builds: Builds, in_source: tuple[Found, ...]) -> None:
    """Equal texts once; what cannot be read has no constructs but those of the source."""
    known: dict[str, Inspected] = {}
    for port in ports:
        if isinstance(port.made, Kernel):
            if port.made.ttir not in known:
                reply = builds.inspect(port.made)
                known[port.made.ttir] = reply if isinstance(reply, Inspected) else _NOTHING
            seen = known[port.made.ttir]
            port.inspected = seen.model_copy(update={"found": (*in_source, *seen.found)})


def launches(plan: LaunchPlan, number: int) -> Iterator[Launch]:
    """Of one of its kernels, in turn."""
    return (step for step in plan.steps if isinstance(step, Launch) and step.kernel == number)

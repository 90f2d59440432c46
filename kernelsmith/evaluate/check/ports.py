"""The candidate's kernels compiled for chips that are not here, each as it is launched on the tuned workloads.

Invariant: nothing is run for them but one more recorded call per workload; what comes back are builds, which
`offline.fit` holds against a target's limits. Autotuned kernels are compiled with the configuration that won on the
workload, or where nothing was measured with the one that an ordinary call takes. Asked by `evaluate` once the
candidate has passed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.base import digest
from kernelsmith.compiled import MOST_CHARS, Build, Chip, Found
from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.sessions.session import CandidateSession
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.offline.builds import Builds
from kernelsmith.offline.lint import found_in_source, keywords_in
from kernelsmith.offline.wire import Compiled, Inspected
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Stage
from kernelsmith.plan import Kernel, Launch, LaunchPlan, PointerArgument
from kernelsmith.sandbox.wire.messages import Choice, Failed

_LOWERED_ELSEWHERE = frozenset({"npu"})
"""Backends of which no front end is here: their own tools lower the TTIR of the recording."""
_NOTHING = Inspected(found=(), runs=())


@dataclass
class _Port:
    """A kernel for a chip, and all its launches."""

    name: str
    chip: Chip
    made: Kernel | Failed
    inspected: Inspected = _NOTHING
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
            **end,
        )


@dataclass(frozen=True)
class Recorded:
    """A tuned workload and what the candidate asks for on it."""

    case: Case
    plan: LaunchPlan

    @property
    def label(self) -> str:
        return self.case.workload.label if self.case.workload is not None else ""


def recorded(operator: LoadedOperator, checker: Checker, picks: Mapping[str, Sequence[Choice]]) -> tuple[Recorded, ...]:
    """Every tuned workload called once more; `picks` are the configurations that won, by the workload's label. Raises
    CandidateFailure where the candidate does not answer as before."""
    found = []
    for case in workload_cases(operator):
        label = case.workload.label if case.workload is not None else ""
        plan = checker.recorded(case, picks.get(label, ())).plan
        assert plan is not None
        found.append(Recorded(case, plan))
    return tuple(found)


def fingerprint(found: Sequence[Recorded]) -> str:
    """Equal for candidates whose launches were the same on every workload."""
    return digest(*(f"{one.label} {one.plan.digest}" for one in found))


def ported(
    found: Sequence[Recorded],
    checker: Checker,
    candidate: CandidateSession,
    builds: Builds,
    chips: Sequence[Chip],
    source: str = "",
) -> tuple[Build, ...]:
    """A build per distinct kernel and chip; `source` is looked through for what TTIR does not show."""
    if not chips:
        return ()
    by_text: dict[str, _Port] = {}
    for one in found:
        plan = one.plan
        for chip in chips:
            made: Sequence[Kernel | Failed]
            if chip.backend in _LOWERED_ELSEWHERE:
                made = plan.kernels
            else:
                made = candidate.lower(plan, chip, checker.remaining(Stage.COMPILE))
            for number, (kernel, lowered) in enumerate(zip(plan.kernels, made, strict=True)):
                key = digest(chip.label, kernel.name, lowered.model_dump_json())
                port = by_text.setdefault(key, _Port(kernel.name, chip, lowered))
                port.workloads[one.label] = None
                port.launches += launches(plan, number)
    ports, named = list(by_text.values()), keywords_in(source)
    with checker.excused():
        _inspect(ports, builds, found_in_source(source))
        compiled = iter(builds.all([(port.made, port.chip) for port in ports if isinstance(port.made, Kernel)]))
    return tuple(port.build(next(compiled) if isinstance(port.made, Kernel) else port.made, named) for port in ports)


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

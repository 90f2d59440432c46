"""What a candidate may take, stage by stage, and why.

Seconds are of one question; `Job.seconds` limits all of them together. Memory follows from the operator: what an honest
kernel needs grows with its inputs and outputs. Processes, files and output are the sandbox's own (`Limits`).
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelsmith.evaluate.truth.answers import run
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.inputs import Case, materialise
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Stage
from kernelsmith.sandbox import machine
from kernelsmith.sandbox.limits import Limits

LIFETIME_SECONDS = 3600.0
"""Of a candidate's processes, for when the judge is stuck: questions have limits of their own, and `Job.seconds` counts
none of the time that passes while others are at work."""

SECONDS = {
    Stage.LOAD: 60.0,  # imports take milliseconds; a ModelNew may build weights, and compile to prepare them
    Stage.RECORD: 60.0,  # a first call compiles every kernel; one more second per further kernel is never near this
    Stage.COMPILE: 60.0,  # as a first call, of which it is the part that takes long
    Stage.CHECK: 60.0,  # a replay on one thread; checked builds run a few times as long as plain ones
    Stage.BENCH: 30.0,  # one sample, with its caches emptied: longer ones could not be repeated often enough to tell
}
"""Longest answer to one question of a stage."""

BASE_BYTES = 4 << 30
"""What a child may take whatever the operator: compilers of a large kernel take 1 GiB, workspaces for shapes that are
no workload another, and what an autotuned candidate leaves in its scratch counts too."""
FACTOR = 16
"""Times inputs and outputs of the largest workload: arenas hold them twice while they grow, the launcher keeps three
sets of inputs and a workspace, a recorder every intermediate of a call, in float32 where the inputs have 16 bits."""
GUESS_BASE_BYTES, GUESS_FACTOR = 768 << 20, 6
"""What an evaluation usually takes: with 64 MiB in and out its two processes took 650 MiB, compilers come on top."""
DEVICE_BYTES = 32 << 30
"""Of a card's memory: more than the plans that are allowed need."""
PROCESSES, CARD_PROCESSES = Limits.processes, 512
"""Threads counted; drivers start some for each queue: PyTorch's OpenReg, which does as CUDA does, 128."""
SHARE = 0.75
"""Of the machine's memory, the most that one child may take."""


@dataclass(frozen=True)
class Sizes:
    """Bytes of the tensors of one call, views counted whole."""

    inputs: int
    outputs: int

    @property
    def both(self) -> int:
        return self.inputs + self.outputs


def largest(operator: LoadedOperator) -> Sizes:
    """Of the workload whose call moves most, by calling the reference. Raises OperatorError where it fails."""
    return max((_sizes(operator, case) for case in workload_cases(operator)), key=lambda sizes: sizes.both)


def _sizes(operator: LoadedOperator, case: Case) -> Sizes:
    inputs = materialise(operator, case, seed=0)
    answer = run(operator, inputs, inputs.tensors(), operator.reference)
    return Sizes(inputs.nbytes, sum(one.numel() * one.element_size() for one in answer.all))


def guess(sizes: Sizes) -> int:
    """Bytes that an evaluation is likely to take, as long as none has shown it."""
    return GUESS_BASE_BYTES + GUESS_FACTOR * sizes.both


def limits(sizes: Sizes, threads: int, *, on_card: bool) -> Limits:
    """Of each of a candidate's processes; `on_card` where they may use an accelerator."""
    return Limits(
        seconds=LIFETIME_SECONDS,
        memory_bytes=_at_most(BASE_BYTES + FACTOR * sizes.both),
        threads=threads,
        processes=CARD_PROCESSES if on_card else PROCESSES,
        device_bytes=DEVICE_BYTES if on_card else None,
    )


def ours(seconds: float, threads: int = 1, *, on_card: bool = False) -> Limits:
    """Of a process beside a candidate's that is to hold nothing large: a compiler, a probe."""
    processes = CARD_PROCESSES if on_card else PROCESSES
    return Limits(seconds=seconds, memory_bytes=_at_most(BASE_BYTES), threads=threads, processes=processes)


def _at_most(nbytes: int) -> int:
    return min(nbytes, int(SHARE * machine.total_bytes()))

"""Is an autotuned kernel right under every configuration that it may come to use?

Triton's own search picks whichever is fastest where the kernel runs, so each one that the candidate offers has to be
right. Not asked for a candidate that is measured too: there the winners are baked in, and checked by themselves.
Called by `evaluate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from kernelsmith.evaluate.check.agenda import Budget
from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.outcome import Level, Outcome
from kernelsmith.sandbox.wire.messages import Choice, Tunable

CASES = {Level.QUICK: 1, Level.FULL: 3, Level.EXHAUSTIVE: 6}
MOST = {Level.QUICK: 8, Level.FULL: 64, Level.EXHAUSTIVE: 512}
"""Configurations that are tried, besides each kernel's first one."""
LEFT_OUT = frozenset({Outcome.COMPILE_ERROR, Outcome.RESOURCE_LIMIT, Outcome.REJECTED})
"""What Triton's search does not use: a configuration that does not compile or is too large for a device, or that the
candidate's own `early_config_prune` rules out."""


def refuse_wrong(
    checker: Checker, tunables: Sequence[Tunable], cases: Sequence[Case], level: Level, budget: Budget
) -> None:
    """Raises CandidateFailure for the first configuration that is wrong, and says which; what was not tried is told."""
    choices, tried = list(_others(tunables)), 0
    if not choices:
        return
    # the largest ones keep several programs of any block busy
    chosen = sorted((c for c in cases if c.workload is None), key=lambda c: prod(c.dims.values()))[-CASES[level] :]
    for choice, text in choices[: MOST[level]]:
        if budget.over:
            break
        for case in chosen or cases[:1]:
            try:
                checker.case(case, (choice,))
            except CandidateFailure as failure:
                if failure.outcome in LEFT_OUT:
                    break
                failure.message = f"with {choice.kernel} at {text}: {failure.message}"
                raise
        tried += 1
    if tried < len(choices):
        left = len(choices) - tried
        checker.collector.leave_out(f"{left} of {len(choices)} configurations of its autotuned kernels were not tried")


def _others(tunables: Sequence[Tunable]) -> Iterator[tuple[Choice, str]]:
    for tunable in tunables:
        for index, text in enumerate(tunable.configs):
            if index:
                yield Choice(kernel=tunable.kernel, config=index), text

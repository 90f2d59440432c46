"""What a proposer is told of a device: its limits, what to avoid there, and the notes of prompts/knowledge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kernelsmith import resources
from kernelsmith.base import Scalar
from kernelsmith.proposal import TargetFacts
from kernelsmith.targets.schema import Target


def facts(target: Target, prompts: Path | None = None) -> TargetFacts:
    """What a proposer is told of the device. `prompts` is the folder of the `--prompts` flag."""
    texts = [resources.read("prompts", f"knowledge/{name}.md", prompts) for name in target.knowledge]
    texts += ["\n".join(_avoid(target)), target.notes]
    return TargetFacts(
        name=target.name,
        device=target.torch_device,
        summary=target.summary,
        limits=dict(_limits(target)),
        notes="\n".join(text.strip() + "\n" for text in texts if text.strip()),
        useless_knobs=target.useless_knobs,
        family=target.triton.backend,
        units=_units(target),
    )


def _units(target: Target) -> int | None:
    """Programs at once, at one per unit: the processor is the one of this machine, as its judges are."""
    if target.torch_device == "cpu":
        return len(os.sched_getaffinity(0))
    if target.multiprocessor is not None:
        return target.multiprocessor.count
    return target.cores.vector if target.cores is not None else None


def _limits(target: Target) -> Iterator[tuple[str, Scalar]]:
    yield from ((name, value) for name, value in target.limits if isinstance(value, int))
    if target.multiprocessor is not None:
        yield "multiprocessors", target.multiprocessor.count
    if target.cores is not None:
        yield from ((f"{name}_cores" if name in ("cube", "vector") else name, value) for name, value in target.cores)
    if target.limits.missing_dtypes:
        yield "missing_dtypes", ", ".join(target.limits.missing_dtypes)


def _avoid(target: Target) -> Iterator[str]:
    """The lint's rules as a list."""
    if target.lint:
        yield "What this device cannot do, or is slow at:"
    for rule in target.lint.values():
        yield f"- {rule.level}: {rule.says}" + (f" Instead: {rule.instead}" if rule.instead else "")

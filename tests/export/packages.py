"""Winners made by hand: real examples and kernels, with regions and timings as a judge would give them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelsmith.export import ExportInput
from kernelsmith.model import (
    ConfigChoice,
    Evaluation,
    OperatorInfo,
    OperatorRef,
    Timing,
    Verdict,
    Workload,
    WorkloadChoice,
)
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.proposal import Candidate, TargetFacts
from kernelsmith.space import Region, RegionStatus
from tests.fakes import UNCONFINED

ROOT = Path(__file__).parents[2]
TARGET = TargetFacts(name="cpu", device="cpu", summary="two cores of a test machine")


def kernel_source(name: str) -> str:
    (path,) = (ROOT / "prompts" / "kernels").glob(f"*/{name}.py")
    return path.read_text()


def timing(workload: Workload) -> Timing:
    return Timing(
        workload=workload,
        median_ms=1.25,
        ci95_ms=(1.2, 1.3),
        n=40,
        host_us=9.0,
        baselines={"eager": 2.5, "compile": 3.0},
        speedup={"eager": 2.0, "compile": 2.4},
        speedup_ci95={"eager": (1.9, 2.1), "compile": (2.3, 2.5)},
        verdict=Verdict.FASTER,
    )


def winner(info: OperatorInfo, source: str, regions: Sequence[Region], configs: Sequence[ConfigChoice] = ()) -> Any:
    """A passed candidate with these regions; workload i uses configuration i of `configs` (the last one after that)."""
    chosen = [configs[min(i, len(configs) - 1)] for i in range(len(info.workloads))] if configs else []
    evaluation = Evaluation(
        outcome=Outcome.PASSED,
        stage=Stage.BENCH,
        cases=40,
        verified=tuple(regions),
        timings=tuple(timing(w) for w in info.workloads),
        choices=tuple(
            WorkloadChoice(workload=w, configs=(c,)) for w, c in zip(info.workloads, chosen, strict=bool(configs))
        ),
    )
    return ExportInput(
        operator=info,
        candidate=Candidate(source=source, origin="start"),
        evaluation=evaluation,
        target=TARGET,
        versions={"torch": "2.13.0", "triton": "3.7.1"},
        run="r1",
        confinement=UNCONFINED,
    )


def example(name: str) -> OperatorInfo:
    from kernelsmith.operators.load import load

    return load(OperatorRef(path=str(ROOT / "examples" / f"{name}.py"))).info


def sampled(dims: dict[str, tuple[int, int]], dtypes: dict[str, str], **more: Any) -> Region:
    return Region(dims=dims, dtypes=dtypes, status=RegionStatus.SAMPLED, **more)

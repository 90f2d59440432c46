"""What waits for a GPU is ready to run: it says so where there is none, and its table shows what was measured."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from benchmarks.gpu import EXAMPLES, ROOT, table
from kernelsmith.model import Evaluation, Timing, Verdict, Workload
from kernelsmith.outcome import Outcome, Stage


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would be run")
def test_without_a_gpu_it_says_what_is_missing_and_runs_nothing() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (2, "")
    assert f"nothing was run of {len(EXAMPLES)} examples" in said.stderr
    assert "/dev/nvidia" in said.stderr and "--without-device" in said.stderr


def test_the_table_has_a_line_for_each_workload_and_each_failure() -> None:
    timing = Timing(
        workload=Workload(dims={"M": 4}),
        median_ms=0.5,
        ci95_ms=(0.4, 0.6),
        n=12,
        host_us=10.0,
        baselines={"eager": 1.0, "compile": 0.75},
        speedup={"eager": 2.0, "compile": 1.5},
        speedup_ci95={"eager": (1.9, 2.1), "compile": (1.4, 1.6)},
        verdict=Verdict.FASTER,
        roofline=0.5,
    )
    fast = Evaluation(
        outcome=Outcome.PASSED, stage=Stage.BENCH, timings=(timing,), notes=("no max-autotune baseline: x", "y")
    )
    wrong = Evaluation(outcome=Outcome.WRONG_VALUES, stage=Stage.CHECK, message="wrong")
    lines = table([("softmax", fast), ("rope", wrong)]).splitlines()
    assert lines[2:4] == [
        "| softmax | M=4 | 0.5 | 2.00 | 1.50 |  | faster |",
        "| rope | wrong_values at check | | | | | |",
    ]
    assert lines[-1] == "softmax: no max-autotune baseline: x"
    assert {line.count("|") for line in lines[:4]} == {8}

"""Whole verdicts a second: a small kernel that is new each time, and one whose builds are known."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.sandbox.line import Line
from kernelsmith.execute.local import LocalExecutor
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Level, Outcome

WIDTH = 2
OPERATOR = '''
"""Sum of two vectors."""
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 4096, 4096)

@operator(x=tensor(N, dtypes=("int32",)), y=tensor(N, dtypes=("int32",)), workloads=[workload(N=4096)])
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y
'''
KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def add_NUMBER(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

def add(x, y):
    z = torch.empty_like(x)
    add_NUMBER[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
"""


def lines(rounds: int) -> list[Line]:
    """Rates at two jobs at once, inputs and truths known as they are in a run."""
    with tempfile.TemporaryDirectory() as folder, LocalExecutor("cpu", width=WIDTH) as executor:
        path = Path(folder) / "add.py"
        path.write_text(OPERATOR)
        started = time.time_ns()  # no build of an earlier run has its name

        def judge(number: int) -> Evaluation:
            source = KERNEL.replace("NUMBER", f"{started}_{number}")
            operator = OperatorRef(path=str(path))
            job = Job(operator=operator, target="cpu", source=source, level=Level.QUICK, seed=1, bench=False)
            return executor.evaluate(job)

        judge(0)  # starts the judge and its zygote, and computes the truths
        cases = judge(0).cases
        compiled = _rate(judge, range(1, 1 + 2 * rounds))
        cached = _rate(judge, [0] * (10 * rounds))
    words = f"{cases} cases and a checked build each, {WIDTH} at once"
    return [
        Line("verdicts, compiled", compiled, 5, "a second", True, f"{2 * rounds} kernels, {words}"),
        Line("verdicts, cached", cached, 50, "a second", True, f"{10 * rounds} times one kernel, {words}"),
    ]


def _rate(judge: Callable[[int], Evaluation], numbers: Sequence[int]) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(WIDTH) as pool:
        verdicts = list(pool.map(judge, numbers))
    elapsed = time.perf_counter() - begin
    wrong = [verdict.message for verdict in verdicts if verdict.outcome is not Outcome.PASSED]
    if wrong:
        raise RuntimeError(f"an honest kernel did not pass: {wrong[0]}")
    return len(numbers) / elapsed

"""What a user has without a kernel: eager against the default torch.compile, in one interleaved run.

    python -m benchmarks.kernelbench.plain PROBLEM MAX_BYTES

Prints how many times as fast as eager the compiled problem is. A program of its own, since it runs the problem's code.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch

from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.inputs import materialise
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import load

ROUNDS = 15
SECONDS = 10.0


def main() -> None:
    operator = load(OperatorRef(path=str(Path(sys.argv[1])), max_bytes=int(sys.argv[2])))
    arguments = materialise(operator, workload_cases(operator)[0], 0).arguments()
    compiled = torch.compile(operator.function)
    ratios: list[float] = []
    with torch.no_grad():
        for call in (operator.function, compiled):
            call(*arguments)
        end = time.monotonic() + SECONDS
        while len(ratios) < ROUNDS and (len(ratios) < 3 or time.monotonic() < end):
            eager = _seconds(operator.function, arguments)
            ratios.append(eager / _seconds(compiled, arguments))
    print(statistics.median(ratios))


def _seconds(call: object, arguments: list[object]) -> float:
    assert callable(call)
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


main()

"""Truths are computed once, kept within a limit, and leave nothing else behind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth import truths as module
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.truths import Truths
from tests.operators.files import made

DOUBLE = "\n@operator(x=tensor(N), workloads=[workload(N=64)])\ndef double(x):\n    return x * 2\n"


def test_a_truth_is_computed_once_and_no_lock_outlives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op, truths, computed = made(tmp_path, DOUBLE), Truths(threads=1), []
    (case,) = workload_cases(op)
    together, real = threading.Barrier(4), module.materialise

    def counting(*arguments: object) -> object:
        computed.append(arguments)
        return real(*arguments)  # type: ignore[arg-type]

    def get(_: int) -> object:
        together.wait(30)
        return truths.get(op, case, 1)

    monkeypatch.setattr(module, "materialise", counting)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(get, range(4)))
    found.append(truths.get(op, case, 1))
    assert len(computed) == 1 and all(one is found[0] for one in found)
    assert not truths._computing


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    op = made(tmp_path, DOUBLE)
    (case,) = workload_cases(op)
    truths = Truths(threads=1)
    size = truths.get(op, case, 1).nbytes
    truths = Truths(threads=1, limit_bytes=2 * size)
    first, second = truths.get(op, case, 1), truths.get(op, case, 2)
    assert truths.get(op, case, 1) is first
    truths.get(op, case, 3)
    assert truths.get(op, case, 1) is first and truths.get(op, case, 2) is not second
    assert truths._bytes == 2 * size and not truths._computing


def test_a_reference_that_fails_leaves_no_lock(tmp_path: Path) -> None:
    text = DOUBLE.replace("workload(N=64)", "workload(N=64), workload(N=128)")
    op = made(tmp_path, text.replace("x * 2", "x * 2 if x.shape[0] < 128 else x.no_such_method()"))
    truths = Truths(threads=1)
    for _ in range(2):
        with pytest.raises(OperatorError, match="no_such_method"):
            truths.get(op, workload_cases(op)[1], 1)
    assert not truths._computing

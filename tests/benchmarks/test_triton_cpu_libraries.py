"""The tables of libraries and tutorials: what counts, and programs for "cuda" on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.triton_cpu.events import Event, Kind, Outcome, append
from benchmarks.triton_cpu.libraries import Library, rows_of, summary
from benchmarks.triton_cpu.recorder import outcome_of
from benchmarks.triton_cpu.tritonbench import NothingToCompareError, compare
from kernelsmith.triton_cpu.emit.moves import transposed
from kernelsmith.triton_cpu.read.ir import Op

PROGRAM = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + index, tl.load(x + index, mask=index < n) * 2, mask=index < n)

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient + torch.ones(gradient.shape, device="cuda")

x = torch.ones(100, device="cuda:0")
assert x.is_cuda and x.device.type == "cuda" and torch.cuda.is_available()
host = x.cpu()
double[(2,)](x, 100, 64)
assert x.sum().item() == 200 and host.sum().item() == 100
y = torch.ones(3, device=x.device, requires_grad=True)
Doubled.apply(y).sum().backward()
assert y.grad.tolist() == [2.0, 2.0, 2.0]
print("ran")
"""


def test_a_program_for_cuda_runs_unchanged(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "benchmarks.triton_cpu.as_cuda", str(program)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("ran\n"), done.stderr


def test_what_counts_and_what_does_not(tmp_path: Path) -> None:
    file = tmp_path / "Gems" / "test_one.jsonl"
    file.parent.mkdir()
    events = [
        Event(Kind.KERNEL, "one:good", Outcome.COMPILES),
        Event(Kind.KERNEL, "one:good", Outcome.FRONT_END),
        Event(Kind.KERNEL, "one:bad", Outcome.COMPILES),
        Event(Kind.KERNEL, "one:bad", Outcome.NO_BUILD, "no such thing"),
        Event(Kind.KERNEL, "one:old", Outcome.FRONT_END, "block pointers are gone"),
        Event(Kind.END, "tests/test_one.py::test_right[1]", Outcome.RIGHT),
        Event(Kind.END, "tests/test_one.py::test_right[2]", Outcome.SKIPPED),
        Event(Kind.END, "tests/test_one.py::test_mixed[1]", Outcome.RIGHT),
        Event(Kind.END, "tests/test_one.py::test_mixed[2]", Outcome.WRONG, "off by one"),
        Event(Kind.END, "tests/test_one.py::test_host[1]", Outcome.NO_KERNEL),
    ]
    for event in events:
        append(file, event)
    rows = rows_of(Library("Gems", "", ()), tmp_path)
    outcomes = {row.name: row.outcome for row in rows}
    assert outcomes == {
        "one:bad": "does not build",
        "one:good": "compiles",
        "one:old": "front end",
        "test_one.py::test_host": "no kernel",
        "test_one.py::test_mixed": "wrong",
        "test_one.py::test_right": "right",
    }
    text, reached = summary(rows)
    assert "1 of 2 kernels" in text
    assert "1 of 2 operators right" in text
    assert not reached


class CompilationError(Exception):
    """As Triton names what its front end raises."""


def test_a_front_end_that_stumbles_over_the_backend_is_no_front_end_refusal() -> None:
    def refusal(ours: bool) -> Exception:
        with pytest.raises(CompilationError) as caught:
            try:
                transposed(Op("tt.trans", (), (), {"order": "i32: zebra" if ours else str(1 // 0)}), ())
            except (ValueError, ZeroDivisionError) as error:
                raise CompilationError from error
        return caught.value

    assert outcome_of(refusal(ours=False)) is Outcome.FRONT_END
    assert outcome_of(refusal(ours=True)) is Outcome.ERROR


def test_results_that_are_nan_all_over_say_nothing() -> None:
    nan, one = torch.full((4,), float("nan")), torch.ones(4)
    compare([("x", nan), ("x", one)], [("x", nan.clone()), ("x", one.clone())])
    with pytest.raises(NothingToCompareError, match="y"):
        compare([("x", one), ("y", nan)], [("x", one), ("y", nan)])
    with pytest.raises(AssertionError):
        compare([("x", nan)], [("x", one)])


def test_an_excuse_holds_for_one_case_of_a_test(tmp_path: Path) -> None:
    file = tmp_path / "Gems" / "test_one.jsonl"
    file.parent.mkdir()
    test = "tests/test_attention_ops.py::test_flash_fwd_dropout"
    append(file, Event(Kind.END, f"{test}[dtype1-True-128-1-1-1024-1024]", Outcome.WRONG))
    library = Library("Gems", "", ())
    assert [row.outcome for row in rows_of(library, tmp_path)] == [Outcome.NO_REFERENCE]
    append(file, Event(Kind.END, f"{test}[dtype1-True-64-1-1-1024-1024]", Outcome.WRONG))
    assert [row.outcome for row in rows_of(library, tmp_path)] == [Outcome.WRONG]

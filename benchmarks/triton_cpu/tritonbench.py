"""Child of the `libraries` table for TritonBench-G: each file's own test, compiled and by Triton's interpreter.

A file of TritonBench-G ends by calling its test, and holds no reference; many a test returns no values. So each file
runs twice with the same random numbers, memory that nobody wrote filled with NaN: compiled by this backend, and by
Triton's interpreter; after every launch all tensors given to the kernel are compared. Each run is a fork of a
process that has imported everything but run nothing: a crash or a hang ends no more than itself. Whether Triton
compiles or interprets is settled by its import, so all files are compiled first, and a second process interprets.

    python -m benchmarks.triton_cpu.tritonbench FOLDER          events go to the file that LIBRARIES_RESULTS names
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.triton_cpu import as_cuda
from benchmarks.triton_cpu.events import Event, Kind, Outcome, append, read
from benchmarks.triton_cpu.recorder import Recorder, cut_autotuners, outcome_of, short
from kernelsmith.faults import CheckedLaunchError, FaultKind

# Rounding of the compared type, with room for sums in another order; float32 results may hold float16 products.
_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float32: 5e-3, torch.float64: 1e-6}
_MOST_ELEMENTS = 10_000_000
_FORK = multiprocessing.get_context("fork")


def run(file: Path) -> list[tuple[str, torch.Tensor]]:
    """Executes the file; all tensors given to its kernels as they were after each launch, the first ones of many."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    seen: list[tuple[str, torch.Tensor]] = []
    for kind in (JITFunction, InterpretedFunction):
        kind.run = _watched(kind.run, seen)
    cut_autotuners()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return seen


def _watched(launch: Any, seen: list[tuple[str, torch.Tensor]]) -> Any:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = launch(self, *args, **kwargs)
        if not kwargs.get("warmup") and sum(tensor.numel() for _, tensor in seen) < _MOST_ELEMENTS:
            given = [*enumerate(args), *kwargs.items()]
            tensors = [(name, value) for name, value in given if isinstance(value, torch.Tensor)]
            seen.extend((f"{self.__name__} argument {name}", value.detach().clone()) for name, value in tensors)
        return result

    return run


class NothingToCompareError(Exception):
    """A result of the reference holds nothing but NaN."""


def compare(got: list[tuple[str, torch.Tensor]], want: list[tuple[str, torch.Tensor]]) -> None:
    """Raises what is wrong, if anything is.

    Raises:
        AssertionError: two results are not the same up to rounding; with the largest difference.
        NothingToCompareError: they are the same, but some result is NaN all over after each launch.
    """
    assert [path for path, _ in got] == [path for path, _ in want], "the launches differ"
    for (path, left), (_, right) in zip(got, want, strict=True):
        tolerance = _TOLERANCE.get(left.dtype, 0.0)
        try:
            torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            raise AssertionError(f"{path}: {short(error)}") from error
    numbers = {path for path, right in want if not right.numel() or not right.double().isnan().all()}
    empty = sorted({path for path, _ in want} - numbers)
    if empty:
        raise NothingToCompareError(f"{', '.join(empty)}: NaN all over")


def _compiled(file: Path, output: Path, results: Path) -> None:
    """In a fork: compiles, runs, saves the result; an `end` event only if that fails."""
    recorder = Recorder(results)
    recorder.watch_compiler()
    recorder.test = file.name
    start = time.monotonic()
    try:
        torch.save(run(file), output)
    except Exception as error:  # noqa: BLE001 - whatever the file raises is its verdict
        append(results, Event(Kind.END, file.name, outcome_of(error), short(error), round(time.monotonic() - start, 3)))


def _checked(file: Path, report: Path) -> None:
    """In a fork: the same as a checked build; the first access out of bounds that it reports, if any."""
    from triton.runtime.jit import JITFunction

    os.environ["KERNELSMITH_CPU_CHECKED"] = "1"
    JITFunction.run = _within_bounds(JITFunction.run)
    try:
        run(file)
    except CheckedLaunchError as error:
        report.write_text(short(error))


def _within_bounds(launch: Any) -> Any:
    """A launch that passes over every fault but the one that can end a process: an access out of bounds."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return launch(self, *args, **kwargs)
        except CheckedLaunchError as error:
            outside = tuple(fault for fault in error.faults if fault.kind is FaultKind.OUT_OF_BOUNDS)
            if outside:
                raise CheckedLaunchError(outside) from error
            return None

    return run


def _crashed(file: Path, trouble: str, time_limit_s: int) -> tuple[Outcome, str]:
    """What a crash means: the kernel's own fault if it leaves its tensors, as a checked build then reports."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "fault"
        _forked(_checked, (file, report), time_limit_s)
        return (Outcome.OWN_FAULT, report.read_text()) if report.exists() else (Outcome.CRASH, trouble)


def _interpreted(file: Path, output: Path) -> None:
    """In a fork: the same by Triton's interpreter."""
    try:
        torch.save(run(file), output)
    except Exception as error:  # noqa: BLE001 - what the interpreter cannot do is no verdict on this backend
        output.with_suffix(".error").write_text(short(error))


def _forked(target: Any, arguments: tuple[Any, ...], time_limit_s: int) -> str:
    """Runs `target` in a fork; what went wrong, or an empty string."""
    process = _FORK.Process(target=target, args=arguments)
    process.start()
    process.join(time_limit_s)
    if process.is_alive():
        process.kill()
        process.join()
        return f"not finished after {time_limit_s} s"
    return "" if process.exitcode == 0 else f"the process ended with {process.exitcode}"


def compile_all(files: list[Path], results: Path, time_limit_s: int) -> None:
    """First pass: the compiled results, saved beside `results`; `end` events for files that give none."""
    begun = {event.name for event in read(results) if event.kind == Kind.START}
    for file in files:
        if file.name in begun:
            continue
        append(results, Event(Kind.START, file.name))
        start = time.monotonic()
        trouble = _forked(_compiled, (file, results.with_name(f"{file.stem}.pt"), results), time_limit_s)
        if trouble:
            outcome, message = Outcome.TIME_OUT, trouble
            if not trouble.startswith("not finished"):
                outcome, message = _crashed(file, trouble, time_limit_s)
            append(results, Event(Kind.END, file.name, outcome, message, round(time.monotonic() - start, 3)))


def interpret_all(files: list[Path], results: Path, time_limit_s: int) -> None:
    """Second pass, with TRITON_INTERPRET: judges every file that the first one left without an `end`."""
    done = {event.name for event in read(results) if event.kind == Kind.END}
    for file in files:
        ours = results.with_name(f"{file.stem}.pt")
        if file.name not in done and ours.exists():
            append(results, _judged(file, ours, time_limit_s))
            ours.unlink()


def _judged(file: Path, ours: Path, time_limit_s: int) -> Event:
    got = torch.load(ours)
    if not got:
        return Event(Kind.END, file.name, Outcome.NO_REFERENCE, "it launches no kernel")
    with tempfile.TemporaryDirectory() as folder:
        theirs = Path(folder) / "interpreted.pt"
        start = time.monotonic()
        trouble = _forked(_interpreted, (file, theirs), time_limit_s)
        seconds = round(time.monotonic() - start, 3)
        if trouble or not theirs.exists():
            trouble = trouble or theirs.with_suffix(".error").read_text()
            return Event(Kind.END, file.name, Outcome.NO_REFERENCE, f"Triton's interpreter: {trouble}", seconds)
        try:
            compare(got, torch.load(theirs))
        except AssertionError as error:
            return Event(Kind.END, file.name, Outcome.WRONG, short(error), seconds)
        except NothingToCompareError as error:
            return Event(Kind.END, file.name, Outcome.NO_REFERENCE, str(error), seconds)
    return Event(Kind.END, file.name, Outcome.RIGHT, "", seconds)


def main(arguments: list[str]) -> int:
    as_cuda.pretend(shown=False)
    results, time_limit_s = Path(os.environ["LIBRARIES_RESULTS"]), int(os.environ["LIBRARIES_TIME_LIMIT_S"])
    files = sorted(Path(arguments[0]).glob("*.py"))
    if os.environ.get("TRITON_INTERPRET") == "1":
        interpret_all(files, results, time_limit_s)
        return 0
    compile_all(files, results, time_limit_s)
    command = [sys.executable, "-m", "benchmarks.triton_cpu.tritonbench", arguments[0]]
    return subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

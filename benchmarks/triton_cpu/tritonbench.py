"""Child of the `libraries` table for TritonBench-G: each file's own test, compiled and by Triton's interpreter.

A file of TritonBench-G ends by calling its test, whose result it names `result_gold`; it holds no reference. So each
file runs twice with the same random numbers, memory that nobody wrote filled with NaN: compiled by this backend, and
by Triton's interpreter; every tensor of the two results is compared. Each run is a fork of this process, which has
imported everything but run nothing: a crash or a hang ends no more than itself.

    python -m benchmarks.triton_cpu.tritonbench FOLDER          events go to the file that LIBRARIES_RESULTS names
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.triton_cpu import as_cuda
from benchmarks.triton_cpu.events import Event, append, read
from benchmarks.triton_cpu.recorder import Recorder, outcome_of, short

# Rounding of the compared type, with room for sums in another order; float32 results may hold float16 products.
_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float32: 5e-3, torch.float64: 1e-6}
_FORK = multiprocessing.get_context("fork")


def run(file: Path) -> Any:
    """The file's `result_gold`, or whatever name the result of its test has."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if name.startswith("result_gold")}


def tensors(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor inside nested dicts, lists and tuples, with the way to it."""
    if isinstance(value, torch.Tensor):
        yield path, value.detach()
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from tensors(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from tensors(inner, f"{path}[{i}]")


def compare(got: list[tuple[str, torch.Tensor]], want: list[tuple[str, torch.Tensor]]) -> None:
    """AssertionError with the largest difference if two results are not the same up to rounding."""
    assert [path for path, _ in got] == [path for path, _ in want], "the results have different parts"
    for (path, left), (_, right) in zip(got, want, strict=True):
        tolerance = _TOLERANCE.get(left.dtype, 0.0)
        try:
            torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            raise AssertionError(f"{path}: {short(error)}") from error


def _compiled(file: Path, output: Path, results: Path) -> None:
    """In a fork: compiles, runs, saves the result; an `end` event only if that fails."""
    recorder = Recorder(results)
    recorder.watch_compiler()
    recorder.test = file.name
    start = time.monotonic()
    try:
        torch.save([(path, tensor.clone()) for path, tensor in tensors(run(file))], output)
    except Exception as error:  # noqa: BLE001 - whatever the file raises is its verdict
        append(results, Event("end", file.name, outcome_of(error), short(error), round(time.monotonic() - start, 3)))


def _interpreted(file: Path, output: Path) -> None:
    """In a fork: the same by Triton's interpreter."""
    from triton import knobs

    knobs.runtime.interpret = True
    try:
        torch.save([(path, tensor.clone()) for path, tensor in tensors(run(file))], output)
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


def judge(file: Path, results: Path, time_limit_s: int) -> Event | None:
    """The file's `end` event; None if its fork has written it."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "compiled.pt", Path(folder) / "interpreted.pt"
        trouble = _forked(_compiled, (file, ours, results), time_limit_s)
        seconds = round(time.monotonic() - start, 3)
        if trouble:
            outcome = "time-out" if trouble.startswith("not finished") else "crash"
            return Event("end", file.name, outcome, trouble, seconds)
        if not ours.exists():
            return None
        got = torch.load(ours)
        if not got:
            return Event("end", file.name, "no reference", "its test gives no tensor", seconds)
        trouble = _forked(_interpreted, (file, theirs), time_limit_s)
        if trouble or not theirs.exists():
            trouble = trouble or theirs.with_suffix(".error").read_text()
            return Event("end", file.name, "no reference", f"Triton's interpreter: {trouble}", seconds)
        try:
            compare(got, torch.load(theirs))
        except AssertionError as error:
            return Event("end", file.name, "wrong", short(error), seconds)
    return Event("end", file.name, "right", "", seconds)


def main(arguments: list[str]) -> int:
    import triton  # noqa: F401 - before the forks, so that none of them pays for it

    as_cuda.pretend(shown=False)
    results = Path(os.environ["LIBRARIES_RESULTS"])
    done = {event.name for event in read(results) if event.kind == "end"}
    for file in sorted(Path(arguments[0]).glob("*.py")):
        if file.name not in done:
            append(results, Event("start", file.name))
            event = judge(file, results, int(os.environ["LIBRARIES_TIME_LIMIT_S"]))
            if event is not None:
                append(results, event)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

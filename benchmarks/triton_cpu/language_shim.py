"""Lets a checkout of Triton's language tests run on any installed Triton, on the CPU: a pytest plug-in.

Owns what the tests need and the wheels lack, and the record of each case. Invariant: no test is skipped, changed or
excused here; what the copy excuses on triton-cpu (`is_cpu`) is demanded, since this backend is another one. Loaded
into the worker processes of `language`, which is why it imports nothing of kernelsmith:

    pytest -p benchmarks.triton_cpu.language_shim --device cpu --record FILE [--cases FILE]

Each line of the record is a JSON object: a case that starts, a case that ended, a file that could not be imported, or,
with `--collect-only`, a case there is.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from triton import _internal_testing

MESSAGE_CHARACTERS = 3000
_record_path: list[Path] = []
_started: dict[str, tuple[float, float]] = {}
_ended: set[str] = set()


def _on_the_cpu(size: int, alignment: int, stream: object) -> torch.Tensor:
    """Triton's allocator of workspaces, which the tests' own asks CUDA for."""
    return torch.empty(size, dtype=torch.int8, device="cpu")


def _no_such_device(name: str) -> Callable[[], bool]:
    """Predicates of devices that this Triton has not heard of."""
    if not name.startswith("is_"):
        raise AttributeError(f"module 'triton._internal_testing' has no attribute {name!r}")
    return lambda: False


def _add_missing_names() -> None:
    _internal_testing.is_cpu = lambda: False
    _internal_testing.__getattr__ = _no_such_device  # asked by the import system for names that are not there
    _internal_testing.default_alloc_fn = _on_the_cpu
    if not hasattr(triton, "aggregate"):  # before 3.8 it had an underscore
        triton.aggregate = getattr(triton.language.core, "_aggregate", None)
        if triton.aggregate is None:
            del triton.aggregate
    if not torch.cuda.is_available():
        torch.cuda.get_device_capability = lambda device=None: (0, 0)  # asked for while tests are collected


_add_missing_names()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", required=True, help="file that gets a JSON object per event")
    parser.addoption("--cases", help="file that names the cases to run, one a line; without it, all")


def pytest_configure(config: pytest.Config) -> None:
    _record_path.append(Path(config.getoption("--record")))


def _write(*events: Mapping[str, object]) -> None:
    with _record_path[0].open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(event) + "\n" for event in events))


def _name(node: str) -> str:
    """`test_core.py::test_cast[...]`, wherever the checkout is."""
    path, _, case = node.partition("::")
    return f"{Path(path).name}::{case}"


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        message = str(report.longrepr)[-MESSAGE_CHARACTERS:]
        _write({"event": "broken", "file": Path(report.nodeid).name, "message": message})


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.getoption("--cases")
    if chosen is not None:
        wanted = set(Path(chosen).read_text(encoding="utf-8").splitlines())
        items[:] = [item for item in items if _name(item.nodeid) in wanted]
    elif config.option.collectonly:
        _write(*({"event": "case", "case": _name(item.nodeid)} for item in items))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    name = _name(item.nodeid)
    _started[name] = time.perf_counter(), _cpu_seconds()
    _write({"event": "start", "case": name})
    return (yield)


def _chain(error: BaseException | None) -> str:
    """An exception and what it was raised from, the cause last: Triton wraps what went wrong in a CompilationError."""
    said: list[str] = []
    while error is not None and len(said) < 5:
        said.append(f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS])
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n<- ".join(said)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report: pytest.TestReport = yield
    name = _name(item.nodeid)
    if name in _ended or (report.when != "call" and report.passed):
        return report
    message = ""
    if call.excinfo is not None:
        last = call.excinfo.traceback[-1]
        message = f"{_chain(call.excinfo.value)}\nat {Path(last.path).name}:{last.lineno + 1}"
        message += "".join(f"\n{line}" for line in report.capstderr.splitlines() if ": error: " in line)
    outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
    clock, processor = _started[name]
    event = {
        "event": "end",
        "case": name,
        "outcome": outcome,
        "seconds": round(time.perf_counter() - clock, 3),
        "cpu_seconds": round(_cpu_seconds() - processor, 3),
        "message": message,
    }
    _write(event)
    _ended.add(name)
    return report

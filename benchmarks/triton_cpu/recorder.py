"""What runs inside a child process of the `libraries` table: records kernels compiled and tests run, as JSON lines.

Owns the lines' meaning (`Event`). Invariant: a line is on disk before the next thing is tried, so that a crash or a
hang names its culprit. A pytest plug-in (`-p benchmarks.triton_cpu.recorder`) set up by `LIBRARIES_*` variables.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.triton_cpu import as_cuda
from benchmarks.triton_cpu.events import Event, Kind, Outcome, append, read
from kernelsmith import triton_cpu

FRONT_END = ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct")
_MESSAGE = 600
_BACKEND = Path(triton_cpu.__file__).parent


def _is_ours(error: BaseException | None) -> bool:
    """Whether this backend's code took part in an error, or in what it was raised from, however Triton wraps it."""
    while error is not None:
        files = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
        if any(Path(file).is_relative_to(_BACKEND) for file in files):
            return True
        error = error.__cause__ or error.__context__
    return False


def outcome_of(error: BaseException) -> Outcome:
    """What an exception says: an assertion is a wrong value, and an unknown one an error.

    Triton's front end calls this backend too: a refusal in which the backend took part is no front end's.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    if "UnsupportedConstruct" in names:
        return Outcome.UNSUPPORTED
    if "BuildError" in names:
        return Outcome.NO_BUILD
    if names & set(FRONT_END):
        return Outcome.ERROR if _is_ours(error) else Outcome.FRONT_END
    if isinstance(error, TimeoutError):
        return Outcome.TIME_OUT
    return Outcome.WRONG if isinstance(error, AssertionError) else Outcome.ERROR


def short(error: BaseException) -> str:
    """One line that says most: for a comparison, its largest differences."""
    text = f"{type(error).__name__}: {error.__cause__ or ''} {error}"
    differences = re.findall(
        r"(?:Mismatched elements|Greatest (?:absolute|relative) difference|ACTUAL|DESIRED): [^\n]*", text
    )
    return " ".join(("; ".join(differences) or text).split())[:_MESSAGE]


class Recorder:
    """Appends events to a file and knows which test is running."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.test = ""
        self.launches = 0

    def write(self, event: Event) -> None:
        append(self._path, event)

    def watch_compiler(self) -> None:
        """Records every kernel that reaches Triton's `compile`, and counts launches."""
        import triton

        from kernelsmith.triton_cpu import driver

        launch = driver._Launcher.__call__

        def launch_(launcher: Any, *args: Any) -> None:
            self.launches += 1
            launch(launcher, *args)

        driver._Launcher.__call__ = launch_  # type: ignore[method-assign, assignment]

        original = triton.compiler.compile

        def compile_(src: Any, *args: Any, **kwargs: Any) -> Any:
            function = src.fn
            source = Path(getattr(function, "__globals__", {}).get("__file__") or function.__module__)
            name = f"{source.stem}:{function.__name__}"
            start = time.monotonic()
            try:
                kernel = original(src, *args, **kwargs)
            except Exception as error:
                self.write(
                    Event(Kind.KERNEL, name, outcome_of(error), short(error), time.monotonic() - start, self.test)
                )
                raise
            self.write(Event(Kind.KERNEL, name, Outcome.COMPILES, "", round(time.monotonic() - start, 3), self.test))
            return kernel

        triton.compiler.compile = compile_


def cut_autotuners() -> None:
    """Autotuners made from now on have their first configuration only, and so time nothing."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.__init__

    def init(self: Any, fn: Any, arg_names: Any, configs: Any, *args: Any, **kwargs: Any) -> None:
        original(self, fn, arg_names, list(configs)[:1], *args, **kwargs)

    Autotuner.__init__ = init


def spread(items: list[Any], most: int) -> list[Any]:
    """At most `most` of the items, evenly spaced, the first and the last among them; one alone is the last.

    Tests name their plain, large cases first and small odd ones last.
    """
    if len(items) <= most:
        return items
    if most == 1:
        return items[-1:]
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def _chosen(items: list[pytest.Item], most: int) -> list[pytest.Item]:
    """A sample of each test function's cases, all its dtypes in it if `most` allows, in the tests' own order."""
    groups: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        dtypes = str([value for name, value in sorted(parameters.items()) if "dtype" in name])
        groups[item.nodeid.split("[")[0]][dtypes].append(item)
    kept: set[str] = set()
    for by_dtype in groups.values():
        share = max(1, most // len(by_dtype))
        for cases in spread(list(by_dtype.values()), most):
            kept.update(case.nodeid for case in spread(cases, share))
    return [item for item in items if item.nodeid in kept]


class Plugin:
    """The pytest side: chooses cases, leaves out those already recorded, limits the time of each."""

    def __init__(self, recorder: Recorder, most: int, done: set[str], time_limit_s: int) -> None:
        self._recorder = recorder
        self._most = most
        self._done = done
        self._time_limit_s = time_limit_s

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        entry = sys.modules.get("flag_gems.utils.libentry")
        if entry is not None:
            entry.minor_version = 5  # type: ignore[attr-defined]  # it knows Triton up to 3.5, whose convention holds
        items[:] = [item for item in _chosen(items, self._most) if item.nodeid not in self._done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        recorder = self._recorder
        recorder.test = item.nodeid
        recorder.launches = 0
        recorder.write(Event(Kind.START, item.nodeid))
        start = time.monotonic()
        signal.signal(signal.SIGALRM, raise_timeout)
        signal.alarm(self._time_limit_s)
        try:
            yield
        except pytest.skip.Exception as error:
            self._end(item, Outcome.SKIPPED, str(error), start)
            raise
        except Exception as error:
            self._end(item, outcome_of(error), short(error), start)
            raise
        else:
            self._end(item, Outcome.RIGHT, "", start)
        finally:
            signal.alarm(0)

    def _end(self, item: pytest.Item, outcome: Outcome, message: str, start: float) -> None:
        if outcome in (Outcome.RIGHT, Outcome.WRONG) and not self._recorder.launches:
            outcome = Outcome.NO_KERNEL  # decided before or without any launch: it says nothing about this backend
        self._recorder.write(Event(Kind.END, item.nodeid, outcome, message, round(time.monotonic() - start, 3)))


def raise_timeout(*_: object) -> None:
    raise TimeoutError("the test took too long")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """The pretence and the recorder are set up before the library's own conftest imports the library."""
    as_cuda.pretend()
    results = Path(os.environ["LIBRARIES_RESULTS"])
    done = {event.name for event in read(results) if event.kind == Kind.END}
    recorder = Recorder(results)
    recorder.watch_compiler()
    cut_autotuners()
    plugin = Plugin(recorder, int(os.environ["LIBRARIES_CASES"]), done, int(os.environ["LIBRARIES_TIME_LIMIT_S"]))
    early_config.pluginmanager.register(plugin)

"""The cases of the table of checked builds, from two places and in one form.

Those of `tests/cases/checked` say what they hold. A folder of other cases (`--cases`) holds modules with `kernel_fn`,
`inputs(name)` that yields the arguments of successive calls, and `SHOWS`, the names of the inputs that matter; which
kind of fault a checked run must find in one of those is said here. An entry's reference is all that another process
needs to find it again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelsmith.faults import FaultKind, Schedule

OWN = "tests.cases.checked"
KINDS = {
    "r01": FaultKind.OUT_OF_BOUNDS,
    "r04": FaultKind.OFFSET_WRAP,
    "r05": FaultKind.OUT_OF_BOUNDS,
    "r06": FaultKind.OUT_OF_BOUNDS,
    "r13": FaultKind.UNWRITTEN,
    "r15": FaultKind.CONFLICT,
    "r16": FaultKind.RACE,
    "r17": FaultKind.RACE,
    "r18": FaultKind.RACE,
    "r19": FaultKind.DEADLOCK,
}
"""What is wrong with the memory of a case that is known by this name; with that of any other nothing is."""
QUIET_INPUTS = {("r06", "one_transposed")}
"""Inputs that show a case's fault in its values alone."""


@dataclass(frozen=True)
class Entry:
    """A host function with arguments, and what a checked run must find."""

    reference: str
    host: Callable[..., object]
    arguments: Callable[[], Iterator[tuple[Any, ...]]]
    """Of successive calls."""
    fault: FaultKind | None
    places: frozenset[str]
    """`file:line` of the lines that a report may name; none where that is not known."""
    schedules: tuple[Schedule, ...] = tuple(Schedule)

    @property
    def name(self) -> str:
        return self.reference.rpartition("/")[2].removeprefix(f"{OWN}.").replace(".py", "")


def own() -> list[Entry]:
    """Those that come with the tests."""
    found = []
    for path in sorted((Path(__file__).parents[2] / OWN.replace(".", "/")).glob("*.py")):
        module = importlib.import_module(f"{OWN}.{path.stem}")
        if path.stem != "__init__":
            found += [_own(f"{module.__name__}:{case.name}", case) for case in getattr(module, "CASES", ())]
    return found


def folder(path: Path) -> list[Entry]:
    """Those of a folder of cases."""
    return [entry for file in sorted(path.glob("*.py")) for entry in _of_file(file)]


def find(reference: str) -> Entry:
    """The entry again, in another process."""
    where, _, name = reference.rpartition(":")
    if where.endswith(".py"):
        return next(entry for entry in _of_file(Path(where)) if entry.reference == reference)
    module = importlib.import_module(where)
    return _own(reference, next(case for case in module.CASES if case.name == name))


def _own(reference: str, case: Any) -> Entry:
    return Entry(reference, case.host, lambda: iter([case.inputs()]), case.fault, case.places, case.schedules)


def _of_file(path: Path) -> list[Entry]:
    module = _imported(path)
    short = path.stem.partition("_")[0]
    return [
        Entry(
            reference=f"{path}:{name}",
            host=module.kernel_fn,
            arguments=lambda name=name: module.inputs(name),  # type: ignore[misc]
            fault=None if (short, name) in QUIET_INPUTS else KINDS.get(short),
            places=frozenset(),
        )
        for name in module.SHOWS
    ]


def _imported(path: Path) -> ModuleType:
    name = f"checked_case_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None, path
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def chosen(entries: Sequence[Entry], patterns: Sequence[str]) -> list[Entry]:
    """Those whose name holds one of the words; all without any."""
    return [entry for entry in entries if not patterns or any(word in entry.name for word in patterns)]

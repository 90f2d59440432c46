"""The shape of the package: imports go one way, files and functions stay short, the controller never loads torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "kernelsmith"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "templates" not in path.parts)

ORDER = (
    *("errors", "text", "keys", "files", "faults", "base", "outcome", "space", "tolerances"),
    *("evidence", "compiled", "estimate", "model", "proposal"),
    *("dialects", "plan"),
    *("resources", "config", "targets", "toolchains", "library", "prompts", "operators"),
    *("diagnosis", "quote", "records", "runs", "seals", "budget", "migrations", "rows", "store", "costs"),
    *("propose", "triton_cpu", "devices", "sandbox", "offline", "execute", "evaluate", "drill"),
    *(
        "search",
        "lessons",
        "flights",
        "rotation",
        "briefing",
        "ledger",
        "jobs",
        "asking",
        "forecast",
        "summary",
        "tune",
        "session",
    ),
    *("render", "live", "batch", "report", "export", "doctor", "commands", "cli", "__main__"),
)
"""A unit (module or folder of the package) imports only units named before it."""
CONTROLLER = frozenset(ORDER) - {
    "operators",
    "triton_cpu",
    "devices",
    "sandbox",
    "offline",
    "evaluate",
    "drill",
    "export",
}
HEAVY = frozenset({"torch", "triton", "openai", "anthropic", "genai_prices"})

MAX_LINES = 430
MAX_FUNCTION = 65


def unit(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything a module imports, function bodies included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports_go_one_way(path: Path) -> None:
    own = unit(path)
    if own == "__init__":
        return
    assert own in ORDER, f"say where {own} stands in ORDER"
    for dotted in imported(parsed(path)):
        parts = dotted.split(".")
        if parts[0] == "kernelsmith" and len(parts) > 1 and parts[1] in ORDER and parts[1] != own:
            assert ORDER.index(parts[1]) < ORDER.index(own), f"{own} must not import {parts[1]}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_and_functions_are_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", [p for p in FILES if unit(p) in CONTROLLER], ids=name)
def test_controller_imports_nothing_heavy_at_module_level(path: Path) -> None:
    for dotted in imported(parsed(path)):
        assert dotted.split(".")[0] not in ("torch", "triton"), "the controller has no torch"
    module_level = ast.Module(
        [node for node in parsed(path).body if isinstance(node, ast.Import | ast.ImportFrom)], type_ignores=[]
    )
    assert not {dotted.split(".")[0] for dotted in imported(module_level)} & HEAVY


PROBE = """
import sys
{before}
heavy = sorted({heavy} & set(sys.modules))
assert not heavy, heavy
"""
RUN = """
from kernelsmith.cli import app
sys.argv = ["kernelsmith", *{arguments!r}]
try:
    app()
except SystemExit as end:
    assert not end.code, end.code
"""


def probe(before: str, folder: Path) -> None:
    program = PROBE.format(before=before, heavy=sorted(HEAVY).__repr__().replace("[", "{").replace("]", "}"))
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["tune", "--help"], ["runs", "list"], ["report", "--format", "md"]])
def test_light_commands_load_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    from kernelsmith.store import Store

    Store.open(tmp_path / "runs").close()
    probe(RUN.format(arguments=arguments), tmp_path)


def test_the_controller_loads_nothing_heavy(tmp_path: Path) -> None:
    modules = "kernelsmith.session, kernelsmith.batch, kernelsmith.live, kernelsmith.execute.local, kernelsmith.doctor"
    probe(f"import {modules}, kernelsmith.export", tmp_path)


def test_help_loads_no_more_than_typer_needs(tmp_path: Path) -> None:
    unwanted = ["pydantic", "sqlite_utils", "rich"]
    program = RUN.format(arguments=["--help"]) + f"\nassert not set({unwanted}) & set(sys.modules)"
    probe(program, tmp_path)


STAGES = {
    "triton_cpu": ("errors isa", "read", "emit", "run", "watch"),
    "sandbox": ("limits usage machine roles", "confine", "wire", "children", "record", "replay"),
    "evaluate": ("truth", "sessions", "check", "region", "repeat", "clock", "room"),
}
"""Folders of a unit, after the modules that all of them may use: each imports only what stands before it."""


@pytest.mark.parametrize(("unit", "stage"), [(unit, stage) for unit, all_ in STAGES.items() for stage in all_[1:]])
def test_stages_import_earlier_ones_only(unit: str, stage: str) -> None:
    allowed = " ".join(STAGES[unit][: STAGES[unit].index(stage) + 1]).split()
    for path in sorted((PACKAGE / unit / stage).glob("*.py")):
        for dotted in imported(parsed(path)):
            if dotted.startswith(f"kernelsmith.{unit}."):
                assert dotted.split(".")[2] in allowed, f"{path.name} imports {dotted}"

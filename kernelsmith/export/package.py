"""Writes the package: renders the templates, copies the runtime modules, records where everything came from.

Invariant: what is written never imports kernelsmith, and its guard admits only what the evaluation proved.
"""

from __future__ import annotations

import json
import keyword
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path
from string import Template

from kernelsmith.errors import KernelsmithError, UsageError
from kernelsmith.export.call import read_call, sizes_code
from kernelsmith.export.cases import cases, draw_code
from kernelsmith.export.kernel import bake
from kernelsmith.export.reference import strip
from kernelsmith.export.words import boxes, case_list, points, region_table, timing_table
from kernelsmith.model import (
    Candidate,
    Evaluation,
    Frozen,
    OperatorInfo,
    Outcome,
    Region,
    RegionStatus,
    Spent,
    TargetFacts,
    digest,
)

PACKAGE_VERSION = "0.1.0"
_TAKEN = frozenset({"kernelsmith", "torch", "triton", "numpy", "pytest"})


class ExportInput(Frozen):
    """All that is known of a winner; the command line fills it from the store."""

    operator: OperatorInfo
    candidate: Candidate
    evaluation: Evaluation
    target: TargetFacts
    spent: Spent = Spent()
    """What the whole run used."""
    versions: dict[str, str] = {}
    """Versions that proved and measured it: kernelsmith, python, torch, triton, compiler, ..."""
    run: str = ""
    """Id of the run."""


def export(item: ExportInput, out: Path, *, name: str = "", swept_only: bool = False, force: bool = False) -> Path:
    """Writes the winner as a package into the folder `out` and returns it.

    Args:
        name: distribution name instead of `ks-<operator>`.
        swept_only: admit only regions in which every size was tried, not those that were sampled.
        force: write into a folder that is not empty (files of other names stay).

    Raises UsageError where there is nothing proven to export, the name is no package name, or `out` is not empty.
    """
    if item.evaluation.outcome is not Outcome.PASSED:
        raise UsageError(f"cannot export a kernel that did not pass ({item.evaluation.outcome.value})")
    if out.exists() and (not out.is_dir() or any(out.iterdir())) and not force:
        raise UsageError(f"{out} exists and is not empty", "choose another folder or give --force")
    wanted = {RegionStatus.SWEPT} if swept_only else {RegionStatus.SWEPT, RegionStatus.SAMPLED}
    admitted = tuple(r for r in item.evaluation.verified if r.status in wanted)
    if not admitted:
        raise UsageError(
            f"{item.operator.name}: nothing is proven that a guard could admit",
            "run `kernelsmith check` on the kernel first" + (", or drop --guard swept" if swept_only else ""),
        )
    distribution, package = _names(name or f"ks-{item.operator.name}")
    files = _Files(item, distribution, package, admitted).render()
    try:
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), files)
            shutil.copytree(folder, out, dirs_exist_ok=True)
    except OSError as error:
        raise KernelsmithError(f"cannot write the package to {out}: {error}", "check space and permissions") from error
    return out


def _names(wanted: str) -> tuple[str, str]:
    """Distribution and import name."""
    distribution = re.sub(r"[-_.]+", "-", wanted).lower()
    package = distribution.replace("-", "_")
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", package) or keyword.iskeyword(package):
        raise UsageError(
            f"--name {wanted!r} is no package name", "letters, digits and hyphens, for example ks-rms-norm"
        )
    if package in _TAKEN or package in sys.stdlib_module_names:
        raise UsageError(f"--name {wanted!r} would hide the module {package}", "choose another name")
    return distribution, package


def _write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    beside = Path(sys.executable).with_name("ruff")
    ruff = str(beside) if beside.exists() else shutil.which("ruff")
    if ruff is not None:  # a nicety: without it the package reads a little less evenly
        options = ["--isolated", "--quiet", "--no-cache", "--line-length", "120", str(folder)]
        subprocess.run([ruff, "check", "--fix-only", "--select", "I", *options], check=False)
        subprocess.run([ruff, "format", *options], check=False)


class _Files:
    """Renders every file of one package; exists only while it is written."""

    def __init__(self, item: ExportInput, distribution: str, package: str, admitted: tuple[Region, ...]) -> None:
        self.item, self.distribution, self.package = item, distribution, package
        self.operator = item.operator
        self.admitted = admitted
        self.refuted = tuple(r for r in item.evaluation.verified if r.status is RegionStatus.REFUTED)
        self.switch = f"{package.upper()}_MODE"
        self.call = read_call(item.operator)
        self.summary = (item.operator.doc or item.operator.name).split("\n")[0].replace('"', "'").replace("\\", "/")

    def render(self) -> dict[str, str]:
        """Relative path to text."""
        package, operator = self.package, self.operator
        reference, check = strip(operator.source, operator.name)
        common = {
            "distribution": self.distribution,
            "package": package,
            "name": operator.name,
            "summary": self.summary,
            "doc": operator.doc or self.summary,
            "device": self.item.target.device,
            "target": self.item.target.name,
            "switch": self.switch,
            "version": PACKAGE_VERSION,
            "arguments": self.call.arguments,
            "declaration": self.call.declaration,
            "annotation": self.call.annotation,
            "bare_declaration": ", ".join(f"{p.name}: {p.annotation}" for p in self.call.parameters),
        }
        return {
            "pyproject.toml": _render("pyproject.toml", common),
            "README.md": _render("README.md", common | self._readme()),
            f"{package}/__init__.py": _render("init.py", common),
            f"{package}/_operator.py": _render("operator.py", common | self._operator()),
            f"{package}/_proven.py": _render("proven.py", common | self._proven()),
            f"{package}/_guard.py": _runtime("guard.py"),
            f"{package}/_baked.py": _runtime("baked.py"),
            f"{package}/_kernel.py": bake(self.item.candidate.source, self.item.evaluation.choices, operator.name),
            f"{package}/_reference.py": reference,
            f"{package}/provenance.json": self._provenance() + "\n",
            f"tests/test_{package}.py": _render("test.py", common | self._tests(check)),
        }

    def _operator(self) -> dict[str, str]:
        call = self.call
        tensors = [("*" if p.info.kind == "list" else "") + p.name for p in call.parameters if p.info.kind != "scalar"]
        fake_arguments = ", ".join(f"{p.name}.clone()" if p.name in call.mutates else p.name for p in call.parameters)
        inputs = f"({call.arguments},)"
        kernel, plain = f"_kernel()(workload, {call.arguments})", f"reference({call.arguments})"
        overload = f"torch.ops.{self.package}.{call.name}.default({call.arguments})"
        ranged = [a.name for a in self.operator.arguments if a.kind != "scalar" and a.values]
        return {
            "argument_names": repr(tuple(p.name for p in call.parameters)),
            "mutates": repr(call.mutates),
            "schema": call.schema.replace('"', '\\"'),
            "op_annotation": "Any" if call.returns else "None",
            "run_kernel": f"return {kernel}" if call.returns else f"{kernel}\n        return",
            "run_reference": f"return _owned({plain}, {inputs})" if call.returns else plain,
            "run_fake": f"return _owned(reference({fake_arguments}), {inputs})" if call.returns else "return",
            "needs_grad": f"any(t is not None and t.requires_grad for t in ({', '.join(tensors)},))",
            "public_return": f"{overload}\n    return {call.returned_argument}"
            if call.returned_argument
            else f"return {overload}",
            "contents": f": {', '.join(ranged)} must be as declared (see README.md)" if ranged else "",
        }

    def _proven(self) -> dict[str, str]:
        return {
            "admitted": boxes(self.admitted),
            "refuted": boxes(self.refuted),
            "workloads": points(self.operator.workloads),
            "sizes": sizes_code(self.operator),
        }

    def _tests(self, check: str | None) -> dict[str, str]:
        imports = sorted({self.operator.name, *([check] if check else [])})
        if check:
            several = "tuple(got), tuple(expected)" if self.call.returns > 1 else "got[0], expected[0]"
            code = f"    assert {check}({several}, *args)"
        else:
            code = (
                f"    truth = results({self.package}.reference, upcast(args))\n"
                "    for one, true, plain in zip(got, truth, expected, strict=True):\n"
                "        check_close(one, true, plain.dtype)"
            )
        found = cases(self.operator, self.admitted)
        if not found:
            raise UsageError(
                f"{self.operator.name}: no proven call is small enough to test the package with",
                "add a workload whose inputs fit into 64 MiB",
            )
        positions = [i for i, p in enumerate(self.call.parameters) if p.name in self.call.mutates]
        return {
            "reference_imports": ", ".join(i for i in imports if i != self.operator.name or not check) or check or "",
            "cases": case_list(found),
            "dim_parameters": ", ".join(d.name for d in self.operator.dims),
            "draws": "".join(f"{draw_code(a)}, " for a in self.operator.arguments),
            "mutated_positions": repr(tuple(positions)),
            "check_code": code,
        }

    def _readme(self) -> dict[str, str]:
        ranged = [f"`{a.name}` {a.values}" for a in self.operator.arguments if a.kind != "scalar" and a.values]
        cpu = " (on the CPU Triton needs a CPU backend, which it does not bring along)"
        note = (
            f"Contents are not checked; as for the reference they must be: {'; '.join(ranged)}.\n\n" if ranged else ""
        )
        refuted = (
            f"Known to be wrong, and therefore refused:\n\n{region_table(self.refuted)}\n\n" if self.refuted else ""
        )
        return {
            "region_table": region_table(self.admitted),
            "refuted_note": refuted,
            "timing_table": timing_table(self.item.evaluation.timings),
            "driver_note": cpu if self.item.target.device == "cpu" else "",
            "value_note": note,
        }

    def _provenance(self) -> str:
        item = self.item
        record = {
            "format": 1,
            "operator": {"name": item.operator.name, "kind": item.operator.kind, "digest": item.operator.digest},
            "kernel": {
                "digest": item.candidate.id,
                "shipped_digest": digest(bake(item.candidate.source, item.evaluation.choices, item.operator.name)),
                "origin": item.candidate.origin,
            },
            "target": item.target.model_dump(mode="json", include={"name", "device", "summary"}),
            "versions": item.versions,
            "run": item.run,
            "spent": item.spent.model_dump(mode="json", include={"trials", "usage", "seconds"}),
            "cases": item.evaluation.cases,
            "notes": list(item.evaluation.notes),
            "verified": [r.model_dump(mode="json") for r in item.evaluation.verified],
            "timings": [t.model_dump(mode="json") for t in item.evaluation.timings],
            "choices": [c.model_dump(mode="json") for c in item.evaluation.choices],
        }
        return json.dumps(record, indent=2)


def _render(template: str, values: dict[str, str]) -> str:
    text = resources.files("kernelsmith.export").joinpath("templates", f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(values)


def _runtime(module: str) -> str:
    return resources.files("kernelsmith.export").joinpath("runtime", module).read_text(encoding="utf-8")

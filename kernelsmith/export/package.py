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
from collections.abc import Iterable
from pathlib import Path

from kernelsmith.base import Frozen, digest
from kernelsmith.errors import KernelsmithError, UsageError
from kernelsmith.export.kernel import bake
from kernelsmith.export.render import Rendering
from kernelsmith.model import ArgumentInfo, Confinement, Evaluation, OperatorInfo
from kernelsmith.outcome import Outcome
from kernelsmith.proposal import Candidate, Spent, TargetFacts
from kernelsmith.space import Region, RegionStatus

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
    confinement: Confinement | None = None
    """What held for all candidates of that run: one that got out may have touched whatever judged the others."""


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
    admitted = _regions(item, wanted)
    if not admitted:
        raise UsageError(
            f"{item.operator.name}: nothing is proven that a guard could admit",
            "run `kernelsmith check` on the kernel first" + (", or drop --guard swept" if swept_only else ""),
        )
    module = item.operator.kind == "kernelbench"
    distribution, package = _names(name or f"ks-{Path(item.operator.path).stem if module else item.operator.name}")
    kernel = bake(item.candidate.source, item.evaluation.choices, item.operator.name)
    rendering = Rendering(
        distribution=distribution,
        package=package,
        operator=item.operator,
        evaluation=item.evaluation,
        target=item.target,
        kernel=kernel,
        admitted=admitted,
        refuted=_regions(item, {RegionStatus.REFUTED}),
    )
    files = rendering.files() | {f"{package}/provenance.json": _provenance(item, kernel)}
    try:
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), files)
            _refuse_links(out, files)
            shutil.copytree(folder, out, dirs_exist_ok=True)
    except OSError as error:
        raise KernelsmithError(f"cannot write the package to {out}: {error}", "check space and permissions") from error
    return out


def _refuse_links(out: Path, files: Iterable[str]) -> None:
    """With --force the folder may hold anything; nothing is written through a link in it."""
    for name in files:
        for path in (out / name, *(out / parent for parent in Path(name).parents)):
            if path != out and path.is_symlink():
                raise UsageError(f"{path} is a link", "remove it, or choose another folder")


def _regions(item: ExportInput, wanted: set[RegionStatus]) -> tuple[Region, ...]:
    """Boxes of these kinds; a dtype that has no alternative is written into each."""
    only = {a.name: a.dtypes[0] for a in item.operator.arguments if _has_one_dtype(a)}
    found: list[Region] = []
    for region in item.evaluation.verified:
        whole = region.model_copy(update={"dtypes": only | region.dtypes})
        if region.status in wanted and whole not in found:  # one box may have been tried with several contents
            found.append(whole)
    return tuple(found)


def _has_one_dtype(argument: ArgumentInfo) -> bool:
    return len(argument.dtypes) == 1 and not argument.dtypes[0].startswith("same as")


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


def _provenance(item: ExportInput, kernel: str) -> str:
    verdict = {"cases", "notes", "verified", "timings", "estimates", "choices"}
    record = {
        "format": 1,
        "operator": {"name": item.operator.name, "kind": item.operator.kind, "digest": item.operator.digest},
        "kernel": {"digest": item.candidate.id, "origin": item.candidate.origin, "shipped_digest": digest(kernel)},
        "target": item.target.model_dump(mode="json", include={"name", "device", "summary"}),
        "versions": item.versions,
        "run": item.run,
        "confinement": item.confinement.model_dump(mode="json") if item.confinement else None,
        "spent": item.spent.model_dump(mode="json", include={"trials", "usage", "seconds"}),
        **item.evaluation.model_dump(mode="json", include=verdict),
    }
    return json.dumps(record, indent=2) + "\n"

"""Renders the files of one package, for a function (native operators) or for a module (KernelBench problems)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from string import Template

from kernelsmith.errors import UsageError
from kernelsmith.export.call import Call, read_call, sizes_code
from kernelsmith.export.cases import cases, draw_code
from kernelsmith.export.reference import strip
from kernelsmith.export.words import boxes, case_list, points, region_table, timing_table
from kernelsmith.model import ArgumentInfo, Evaluation, OperatorInfo
from kernelsmith.proposal import TargetFacts
from kernelsmith.space import Region
from kernelsmith.text import line, markdown

PACKAGE_VERSION = "0.1.0"


@dataclass(frozen=True)
class Rendering:
    """One package about to be written; `kernel` is the candidate with its configurations baked in."""

    distribution: str
    package: str
    operator: OperatorInfo
    evaluation: Evaluation
    target: TargetFacts
    kernel: str
    admitted: tuple[Region, ...]
    refuted: tuple[Region, ...]

    @cached_property
    def call(self) -> Call:
        return read_call(self.operator)

    @property
    def switch(self) -> str:
        """The environment variable that turns the kernel off."""
        return f"{self.package.upper()}_MODE"

    def files(self) -> dict[str, str]:
        """Relative path to text, but for the provenance."""
        module = self.operator.kind == "kernelbench"
        folder = self.package
        return {
            "pyproject.toml": self._render("pyproject.toml"),
            "README.md": self._render("README.md", **self._readme()),
            f"{folder}/_proven.py": self._render("proven.py", **self._proven()),
            f"{folder}/_guard.py": _packaged("runtime", "guard.py"),
            f"{folder}/_baked.py": _packaged("runtime", "baked.py"),
            f"{folder}/_kernel.py": self.kernel,
            **(self._module() if module else self._function()),
        }

    def _render(self, template: str, **values: str) -> str:
        call, operator = self.call, self.operator
        summary = line((operator.doc or operator.name).split("\n")[0]).replace('"', "'").replace("\\", "/")
        common = {
            "distribution": self.distribution,
            "package": self.package,
            "name": operator.name,
            "summary": summary,
            "doc": markdown(operator.doc or summary),
            "device": self.target.device,
            "target": self.target.name,
            "switch": self.switch,
            "version": PACKAGE_VERSION,
            "argument_names": repr(tuple(p.name for p in call.parameters)),
            "arguments": call.arguments,
            "declaration": call.declaration,
            "annotation": call.annotation,
            "bare_declaration": ", ".join(f"{p.name}: {p.annotation}" for p in call.parameters),
            "tensors": _tuple(call.tensors),
        }
        return Template(_packaged("templates", f"{template}.txt")).substitute(common | values)

    def _module(self) -> dict[str, str]:
        return {
            f"{self.package}/__init__.py": self._render("module_init.py"),
            f"{self.package}/_module.py": self._render("module.py"),
            f"{self.package}/_reference.py": self.operator.source,
            f"tests/test_{self.package}.py": self._render("module_test.py"),
        }

    def _function(self) -> dict[str, str]:
        reference, check = strip(self.operator.source, self.operator.name)
        return {
            f"{self.package}/__init__.py": self._render("init.py"),
            f"{self.package}/_operator.py": self._render("operator.py", **self._operator()),
            f"{self.package}/_reference.py": reference,
            f"tests/test_{self.package}.py": self._render("test.py", **self._tests(check)),
        }

    def _ranged(self) -> list[ArgumentInfo]:
        """Tensors whose contents must keep to something."""
        return [a for a in self.operator.arguments if a.kind != "scalar" and a.values not in ("", "any")]

    def _operator(self) -> dict[str, str]:
        call = self.call
        fake_arguments = ", ".join(f"{p.name}.clone()" if p.name in call.mutates else p.name for p in call.parameters)
        inputs = _tuple([p.name for p in call.parameters])
        kernel, plain = f"_kernel()(workload, {call.arguments})", f"reference({call.arguments})"
        overload = f"torch.ops.{self.package}.{call.name}.default({call.arguments})"
        passed = f"{overload}\n    return {call.returned_argument}"
        ranged = ", ".join(a.name for a in self._ranged())
        return {
            "schema": call.schema.replace('"', '\\"'),
            "op_annotation": "Any" if call.returns else "None",
            "run_kernel": f"return {kernel}" if call.returns else f"{kernel}\n        return",
            "run_reference": f"return _owned({plain}, {inputs})" if call.returns else plain,
            "run_fake": f"return _owned(reference({fake_arguments}), {inputs})" if call.returns else "return",
            "needs_grad": f"any(t is not None and t.requires_grad for t in {_tuple(call.tensors)})",
            "public_return": passed if call.returned_argument else f"return {overload}",
            "contents": f": {ranged} must be as declared (see README.md)" if ranged else "",
        }

    def _proven(self) -> dict[str, str]:
        return {
            "admitted": boxes(self.admitted),
            "refuted": boxes(self.refuted),
            "workloads": points(self.operator.workloads),
            "sizes": sizes_code(self.operator),
        }

    def _tests(self, check: str | None) -> dict[str, str]:
        found = cases(self.operator, self.admitted)
        if not found:
            raise UsageError(
                f"{self.operator.name}: no proven call is small enough to test the package with",
                "add a workload whose inputs fit into 64 MiB",
            )
        if check is not None:
            several = "tuple(got), tuple(expected)" if self.call.returns > 1 else "got[0], expected[0]"
            code = f"    assert {check}({several}, *args)"
        else:
            code = (
                f"    truth = results({self.package}.reference, upcast(args))\n"
                "    for one, true, plain in zip(got, truth, expected, strict=True):\n"
                "        check_close(one, true, plain.dtype)"
            )
        positions = tuple(i for i, p in enumerate(self.call.parameters) if p.name in self.call.mutates)
        return {
            "check_import": f"from {self.package}._reference import {check}\n" if check else "",
            "cases": case_list(found),
            "dim_parameters": "".join(f"{d.name}, " for d in self.operator.dims),
            "draws": "".join(f"{draw_code(a)}, " for a in self.operator.arguments),
            "mutated_positions": repr(positions),
            "check_code": code,
        }

    def _readme(self) -> dict[str, str]:
        module = self.operator.kind == "kernelbench"
        public = "Model, get_init_inputs" if module else self.operator.name
        model_call = f"y = Model(*get_init_inputs())({self.call.arguments})"
        ranged = "; ".join(f"`{a.name}` {a.values}" for a in self._ranged())
        cpu = " (on the CPU Triton needs a CPU backend, which it does not bring along)"
        note = f"Contents are not checked; as for the reference they must be: {ranged}.\n\n" if ranged else ""
        refuted = (
            f"Known to be wrong, and therefore refused:\n\n{region_table(self.refuted)}\n\n" if self.refuted else ""
        )
        sizes = "exactly the problem's own inputs" if module else "calls inside these ranges"
        return {
            "public": public,
            "usage": model_call if module else f"y = {self.operator.name}({self.call.arguments})",
            "what": self._render("what_module.md" if module else "what_function.md").strip(),
            "sizes": sizes,
            "region_table": region_table(self.admitted),
            "refuted_note": refuted,
            "timing_table": timing_table(self.evaluation, self.target.name),
            "driver_note": cpu if self.target.device == "cpu" else "",
            "value_note": note,
        }


def _tuple(elements: Sequence[str]) -> str:
    return f"({elements[0]},)" if len(elements) == 1 else f"({', '.join(elements)})"


def _packaged(*path: str) -> str:
    return resources.files("kernelsmith.export").joinpath(*path).read_text(encoding="utf-8")

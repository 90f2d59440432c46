from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

from kernelsmith.errors import UsageError
from kernelsmith.export import export
from kernelsmith.model import ConfigChoice, Evaluation, OperatorInfo, OperatorRef
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.space import Region, RegionStatus
from tests.export.packages import example, kernel_source, sampled, winner

BOX = {"M": (1, 300), "N": (1, 9000)}
CONFIGS = [ConfigChoice(kernel="swiglu_block", index=i, text=f"{{'BLOCK': {b}}}") for i, b in enumerate((512, 1024))]

PROBLEM = '''"""Scale."""
import torch
import torch.nn as nn

size = 40


class Model(nn.Module):
    """Adds a number and scales by a weight."""

    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return (x + self.shift) * self.weight


def get_inputs():
    return [torch.randn(3, size)]


def get_init_inputs():
    return [2.0]
'''
PROBLEM_KERNEL = """import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.jit
def scale(x, w, y, n, shift, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.program_id(0) * n
    v = tl.load(x + row + at, mask=at < n) + shift
    tl.store(y + row + at, v * tl.load(w + at, mask=at < n), mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.weight = torch.nn.Parameter(torch.randn(40))

    def forward(self, x):
        y = torch.empty_like(x)
        scale[(x.shape[0],)](x, self.weight, y, x.shape[1], self.shift)
        return y
"""


def swiglu(out: Path) -> Path:
    info = example("swiglu")
    regions = [sampled(BOX, {"x": "float32"}), sampled({"M": (1, 4), "N": (1, 9000)}, {"x": "bfloat16"})]
    regions.append(Region(dims={"M": (1, 300), "N": (100, 110)}, dtypes={"x": "float32"}, status=RegionStatus.REFUTED))
    return export(winner(info, kernel_source("swiglu"), regions, CONFIGS), out)


def clean() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "TRITON"))}


def test_installs_into_a_clean_environment_where_its_own_tests_pass_without_a_driver(tmp_path: Path) -> None:
    package = swiglu(tmp_path / "out")
    venv.create(tmp_path / "venv")
    python = str(tmp_path / "venv" / "bin" / "python")
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--no-index", str(package)], check=True, cwd=tmp_path)
    # without the entry points Triton has no CPU driver, as for a user who installs only what the package asks for
    bare = clean() | {"TRITON_BACKENDS_IN_TREE": "1"}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=package, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    code = (
        "import sys, torch, ks_swiglu; x = torch.randn(3, 40); y = ks_swiglu.swiglu(x); "
        "assert not ks_swiglu.supports(x); assert torch.equal(y, ks_swiglu.reference(x)); "
        "assert 'site-packages' in ks_swiglu.__file__; assert not [m for m in sys.modules if 'kernelsmith' in m]"
    )
    subprocess.run([python, "-c", code], check=True, cwd=tmp_path, env=bare)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return swiglu(tmp_path_factory.mktemp("exported") / "out")


def scale(folder: Path) -> Path:
    from kernelsmith.operators.load import load

    path = folder / "7_Scale.py"
    path.write_text(PROBLEM)
    info: OperatorInfo = load(OperatorRef(path=str(path))).info
    configs = [ConfigChoice(kernel="scale", index=0, text="{'B': 64}")]
    return export(winner(info, PROBLEM_KERNEL, [Region(status=RegionStatus.SWEPT)], configs), folder / "out")


def small(name: str, out: Path) -> Path:
    info = example(name)
    dims = {d.name: (d.low, min(d.high, 200)) for d in info.dims}
    dtypes = {a.name: "int64" if a.dtypes == ("int64",) else "float32" for a in info.arguments if a.kind == "tensor"}
    return export(winner(info, kernel_source(name), [sampled(dims, dtypes)]), out)


def test_their_own_tests_pass_with_the_kernel(package: Path, tmp_path: Path) -> None:
    # two outputs, answers that are not unique, integer arguments, a module; one process, for each costs seconds
    others = [small(name, tmp_path / name) for name in ("add_rms_norm", "argmax", "scatter_add")]
    packages = [package, *others, scale(tmp_path)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(p / "tests") for p in packages)]
    path = os.pathsep.join(map(str, packages))
    done = subprocess.run(
        command, cwd=tmp_path, env=clean() | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_in_it_imports_kernelsmith(package: Path) -> None:
    files = list(package.rglob("*.py"))
    assert len(files) >= 8
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(n.startswith("kernelsmith") for n in names), file


def test_the_guard_admits_exactly_the_proven_region(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package))
    import ks_swiglu

    def x(m: int, n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(m, 2 * n).to(dtype)

    assert ks_swiglu.supports(x(1, 1))
    assert ks_swiglu.supports(x(300, 9000))
    assert ks_swiglu.supports(x(4, 7, torch.bfloat16))
    refused = [
        x(301, 8),  # M past the box
        x(2, 9001),  # N past the box
        x(5, 8, torch.bfloat16),  # bfloat16 was proven up to M = 4
        x(2, 8, torch.float16),
        x(2, 105),  # refuted
        torch.randn(2, 7),  # odd width
        torch.randn(2, 2, 8),
        torch.randn(16, 2).T,
        torch.randn(2, 32)[:, ::2],
        torch.randn(2, 32)[:, :16],
        torch.randn(1, 16).expand(2, 16),
        torch.randn(33)[1:].view(2, 16),  # not aligned
        torch.randn(2, 16, device="meta"),
    ]
    for tensor in refused:
        assert not ks_swiglu.supports(tensor), (tensor.shape, tensor.dtype, tensor.stride())
    assert torch.equal(ks_swiglu.swiglu(refused[0]), ks_swiglu.reference(refused[0]))
    assert ks_swiglu.swiglu(refused[-1]).shape == (2, 8)


def test_what_is_refuted_is_refused_in_every_layout_unless_it_names_one(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(swiglu(tmp_path / "out")))
    from ks_swiglu._guard import Box

    plain, sliced = torch.randn(2, 16), torch.randn(2, 32)[:, :16]
    proven = Box(dims={"N": (1, 9)}, layouts={"x": "rows sliced"})
    assert proven.holds({"N": 8}, {"x": sliced}) and not proven.holds({"N": 8}, {"x": plain})
    anywhere = Box(dims={"N": (8, 8)})
    assert all(anywhere.holds({"N": 8}, {"x": one, "s": None}, unnamed=True) for one in (plain, sliced))
    assert not anywhere.holds({"N": 8}, {"x": sliced})
    only = Box(dims={"N": (8, 8)}, layouts={"x": "rows sliced"}, scalars={"s": 1})
    assert only.holds({"N": 8}, {"x": sliced, "s": 1}, unnamed=True)
    assert not only.holds({"N": 8}, {"x": plain, "s": 1}, unnamed=True)
    assert not only.holds({"N": 8}, {"x": sliced, "s": 2}, unnamed=True)


def test_only_what_was_walked_is_admitted_on_request(tmp_path: Path) -> None:
    info = example("swiglu")
    swept = Region(dims={"M": (1, 3), "N": (1, 64)}, dtypes={"x": "float32"}, status=RegionStatus.SWEPT)
    item = winner(info, kernel_source("swiglu"), [sampled(BOX, {"x": "float32"}), swept], CONFIGS)
    package = export(item, tmp_path / "out", swept_only=True)
    proven = (package / "ks_swiglu" / "_proven.py").read_text()
    assert "(1, 64)" in proven and str(BOX["N"]) not in proven
    record = json.loads((package / "ks_swiglu" / "provenance.json").read_text())
    assert [region["status"] for region in record["verified"]] == ["sampled", "swept"]


def test_other_sizes_use_the_nearest_workload(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package))
    from ks_swiglu import _operator

    def nearest(m: int, n: int, dtype: torch.dtype) -> int | None:
        return _operator._GUARD.nearest(torch.randn(m, 2 * n).to(dtype))

    assert nearest(200, 5000, torch.float32) == 1  # M=256 N=8192 float32
    assert nearest(1, 9000, torch.bfloat16) == 2  # M=1 N=14336 bfloat16
    assert nearest(4, 9000, torch.bfloat16) == 2
    source = (package / "ks_swiglu" / "_kernel.py").read_text()
    assert source.index('"BLOCK": 512') < source.index('"BLOCK": 1024')


def test_provenance_and_page_say_where_it_comes_from(package: Path) -> None:
    record = json.loads((package / "ks_swiglu" / "provenance.json").read_text())
    assert record["operator"]["name"] == "swiglu"
    assert record["versions"]["triton"] == "3.7.1"
    assert len(record["timings"]) == 3
    assert record["confinement"]["unsafe_no_sandbox"] and record["confinement"]["missing"] == ["Landlock", "seccomp"]
    assert record["verified"][0]["dims"] == {"M": [1, 300], "N": [1, 9000]}
    page = (package / "README.md").read_text()
    assert "| 1..300 | 1..9000 | float32 | contiguous | sampled |" in page
    assert "2.00 (1.90 to 2.10)" in page
    assert "CPU backend" in page
    assert "$" not in page


def test_a_kernelbench_problem_becomes_a_module(tmp_path: Path) -> None:
    code = (
        "import torch, ks_7_scale as s; m = s.Model(*s.get_init_inputs()); torch.set_grad_enabled(False); "
        "assert m.supports(*s.get_inputs()); assert not m.supports(torch.randn(4, 40)); "
        "assert list(m.state_dict()) == ['weight']; assert not s.Model(3.0).supports(*s.get_inputs())"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=scale(tmp_path))


def test_a_folder_that_is_not_empty_needs_force(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        swiglu(tmp_path)
    item = winner(example("swiglu"), kernel_source("swiglu"), [sampled(BOX, {"x": "float32"})])
    export(item, tmp_path, force=True)
    assert (tmp_path / "mine.txt").read_text() == "x"
    assert (tmp_path / "pyproject.toml").exists()


@pytest.mark.parametrize("name", ["torch", "json", "9lives", "class", "a b"])
def test_a_name_that_cannot_be_imported_or_hides_a_module_is_refused(name: str, tmp_path: Path) -> None:
    item = winner(example("swiglu"), kernel_source("swiglu"), [sampled(BOX, {"x": "float32"})])
    with pytest.raises(UsageError, match="--name"):
        export(item, tmp_path / "out", name=name)


def test_without_a_proven_region_there_is_nothing_to_export(tmp_path: Path) -> None:
    item = winner(example("swiglu"), kernel_source("swiglu"), [sampled(BOX, {"x": "float32"})])
    with pytest.raises(UsageError, match="nothing is proven"):
        export(item, tmp_path / "out", swept_only=True)
    failed = Evaluation(outcome=Outcome.TIMEOUT, stage=Stage.CHECK, message="took longer than 120 s")
    with pytest.raises(UsageError, match="did not pass"):
        export(item.model_copy(update={"evaluation": failed}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("link", ["README.md", "ks_swiglu", "tests", "ks_swiglu/_kernel.py"])
def test_force_writes_through_no_link(tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    out = tmp_path / "out"
    (out / link).parent.mkdir(parents=True)
    (out / link).symlink_to(outside / "precious" if "." in link else outside)
    with pytest.raises(UsageError, match="is a link"):
        export(winner(example("swiglu"), kernel_source("swiglu"), [sampled(BOX, {"x": "float32"})]), out, force=True)
    assert [p.name for p in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "precious"

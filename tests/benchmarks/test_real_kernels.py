"""Kernels of libraries are put into candidates with all they need, and every host file has its operator."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchmarks.real_kernels.__main__ as real_kernels
from benchmarks.real_kernels.bundle import BundleError, bundled, projects_of
from benchmarks.real_kernels.known import FAULTS
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import load

HOSTS = sorted((real_kernels.HERE / "hosts").glob("*.py"))
LIBRARY = """
import logging
import triton
import triton.language as tl
from fla.helpers import twice as double, settings
from .near import LIMIT

logger = logging.getLogger(__name__)

try:
    from triton.language.extra.libdevice import rsqrt
except ImportError:
    rsqrt = None

def total(x):
    return logger

@settings
@triton.jit(do_not_specialize=["n"])
def kernel(x, n, BLOCK: tl.constexpr):
    total = tl.load(x + tl.arange(0, BLOCK)) * LIMIT
    tl.store(x, rsqrt(double(total)))
"""
HELPERS = """
import triton

def settings(kernel):
    return kernel

@triton.jit
def twice(x):
    return x + x
"""
HOST = (
    "import torch\nfrom fla.modules.norm import kernel\n\ndef run(x):\n    kernel[(1,)](x, 3, BLOCK=4)\n    return x\n"
)


def test_a_kernel_comes_with_what_it_needs_and_nothing_else(tmp_path: Path) -> None:
    package = tmp_path / "flash-linear-attention" / "fla"
    (package / "modules").mkdir(parents=True)
    (package / "modules" / "norm.py").write_text(LIBRARY)
    (package / "modules" / "near.py").write_text(
        "import triton.language as tl\nLIMIT: tl.constexpr = tl.constexpr(3)\n"
    )
    (package / "helpers.py").write_text(HELPERS)
    host = tmp_path / "run.py"
    host.write_text(HOST)
    text = bundled(host, tmp_path)
    places = [
        text.index(part) for part in ("rsqrt\n", "LIMIT: tl", "def twice", "double = twice", "def kernel", "def run")
    ]
    assert places == sorted(places)
    assert "@triton.jit(do_not_specialize=['n'])" in text
    assert "settings" not in text
    assert "logging" not in text
    compile(text, "bundle", "exec")
    host.write_text("from fla.modules.gone import kernel\n\ndef run(x):\n    return x\n")
    with pytest.raises(BundleError, match=r"no fla.modules.gone below .*: clone github.com/fla-org"):
        bundled(host, tmp_path)


def test_names_of_the_host_file_come_first(tmp_path: Path) -> None:
    module = tmp_path / "flash-linear-attention" / "fla" / "modules" / "norm.py"
    module.parent.mkdir(parents=True)
    module.write_text(LIBRARY)
    host = tmp_path / "run.py"
    host.write_text(f"LIMIT = 3\ndouble = rsqrt = abs\n{HOST}")
    text = bundled(host, tmp_path)
    assert "def twice" not in text
    assert "LIMIT = 3" in text
    assert text.index("double = rsqrt") < text.index("def kernel")


def test_every_host_file_is_from_a_project_and_has_an_operator() -> None:
    operators = {path.stem for path in (real_kernels.HERE / "operators").glob("*.py")}
    assert operators == {real_kernels.operator_of(host) for host in HOSTS}
    assert all(projects_of(host) for host in HOSTS)
    assert FAULTS.keys() <= {host.stem for host in HOSTS}


@pytest.mark.parametrize("name", sorted({real_kernels.operator_of(host) for host in HOSTS}))
def test_operators_load(name: str) -> None:
    operator = load(OperatorRef(path=str(real_kernels.HERE / "operators" / f"{name}.py")))
    assert operator.info.name == name

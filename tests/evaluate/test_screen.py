"""The screen refuses what a candidate may never do, says where, and has nothing against honest code."""

import pytest

from kernelsmith.evaluate.screen import screen
from kernelsmith.model import Outcome

HONEST = """
from __future__ import annotations
import math
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

try:
    from torch.nn import functional as F
except ImportError:
    pass

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, libdevice.exp(tl.load(x + offsets, mask=offsets < n)), mask=offsets < n)

class Helper:
    def __init__(self):
        self.block = 128

def operator(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
"""


def test_honest_module_is_left_alone():
    assert screen(HONEST, entry="operator") is None


@pytest.mark.parametrize(
    "line",
    [
        'wide = getattr(torch, "float32")',
        'half = getattr(torch, "float" + "16")',
        "class Plan:\n    os = 3\nsize = Plan.os",
        "from operator import add as sys\nsum_ = sys.__name__",
    ],
)
def test_what_looks_like_it_is_left_alone(line):
    assert screen(HONEST + line + "\n", entry="operator") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import os", "import of 'os'"),
        ("import subprocess as s", "import of 'subprocess'"),
        ("from ctypes import CDLL", "import of 'ctypes'"),
        ("import torch.utils.cpp_extension", "cpp_extension"),
        ("from torch.utils import cpp_extension", "cpp_extension"),
        ("from . import neighbour", "relative import"),
        ("exec('1')", "exec()"),
        ("eval('1')", "eval()"),
        ("open('/etc/passwd')", "open()"),
        ("__import__('os')", "__import__()"),
        ("torch.allclose = lambda *a: True", "assignment to torch.allclose"),
        ("tl.math.exp = None", "assignment to tl.math.exp"),
        ("x = (lambda: 0).__globals__", "__globals__"),
        ("y = ().__class__.__base__.__subclasses__()", "__subclasses__"),
        ("torch.ops.load_library('x')", "load_library"),
        ("torch.os.system('ls')", "use of torch.os"),
        ("R = getattr(torch, 'sys').modules", "use of torch.sys"),
        ("import torch.nn.functional as F; F.os", "use of F.os"),
        ("from torch import nn as layers; getattr(layers.init, 'sys', None)", "use of layers.init.sys"),
        ("from triton import runtime; runtime.jit.os", "use of runtime.jit.os"),
        ("from torch.utils import os", "import of 'os'"),
        ("getattr(x, '__globals__')", "__globals__"),
        ("import triton.runtime.driver", "triton.runtime.driver"),
    ],
)
def test_forbidden_line_is_refused_with_its_number(line, words):
    verdict = screen(HONEST + line + "\n", entry="operator")
    assert verdict is not None
    assert verdict.outcome is Outcome.REJECTED
    assert words in verdict.message
    assert f"line {HONEST.count(chr(10)) + 1}:" in verdict.message


def test_syntax_error_is_a_compile_error_with_its_line():
    verdict = screen("import triton\n\ndef f(:\n    pass\n", entry="f")
    assert verdict is not None
    assert verdict.outcome is Outcome.COMPILE_ERROR
    assert "line 3" in verdict.message


def test_missing_entry_names_what_is_there():
    verdict = screen(HONEST, entry="softmax")
    assert verdict is not None
    assert "softmax" in verdict.message
    assert "operator" in verdict.message


def test_module_without_kernel():
    verdict = screen("import torch\ndef f(x):\n    return torch.relu(x)\n", entry="f")
    assert verdict is not None
    assert "no @triton.jit kernel" in verdict.message


@pytest.mark.parametrize("source", ["x = " + "(" * 5000 + ")" * 5000, "a\0b", "x = 1\n" * 200_000])
def test_monstrous_source_is_a_verdict(source):
    assert screen(source, entry="f") is not None

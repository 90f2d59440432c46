"""The screen refuses what a candidate may never do, says where, and has nothing against honest code."""

import re
from pathlib import Path

import pytest

from kernelsmith.evaluate.check.screen import screen
from kernelsmith.outcome import Outcome

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
        "def typed(name): return getattr(torch, name)",
        "class Plan:\n    os = 3\nsize = Plan.os",
        "from operator import add as sys\nsum_ = sys.__name__",
        "import copy\ndef g(copy): return copy.data",
        "from torch import nn as m\nclass Obj: pass\ndef g():\n    m = Obj()\n    m.sys = 3",
        "def g(compile, open=2): return compile(open)",
        "def compile(n): return n\nblock = compile(64)",
        "sizes = [copy.data for copy in ()]\nimport copy",
        # words alone mean nothing
        "try:\n    block = 64\nexcept ValueError:\n    pass\nfinally:\n    warps = 4",
        "class Marker:\n    pass",
        "exec_time, evaluate, opened, compiled = 1, 2, 3, 4",
        "def exec_time(open_rows=1): return open_rows",
        "# import os; exec(open('x').read())  torch.compile(...)",
        '"""eval(x), exec(x), __import__(x): none of them is called here."""',
        "words = 'import subprocess; os.system(1)' + \"eval(\"",
        "text = f'exec({1 + 1})'",
        "hint = 'torch.compile(f) took 3 ms; torch.cuda.Event'",
        "kernels = {'exec': operator, 'compile': operator, 'torch.load': operator}\nkernels['exec']",
        "def load(x): return x\nsize = load(3)",
        "class Cache:\n    def save(self): pass\n    def load(self): pass\nCache().load()",
        "class Runner:\n    def eval(self): return self\n    def compile(self): return self\nRunner().eval().compile()",
        "class Net(torch.nn.Module):\n    def forward(self, x): return x\nnet = Net().eval()",
        "reset = (lambda system: system)(3)",
        "from dataclasses import dataclass\n@dataclass\nclass Timing:\n    event: int = 0\n    profiler: int = 0",
        "_cache = {}\ndef remember(key): return _cache.setdefault(key, key)",
        "if hasattr(torch, 'float8_e4m3fn'):\n    narrow = torch.float8_e4m3fn",
        "assert not False, 'setattr(x, y) is refused'",
        "raise_ = ValueError('open() failed: globals() and locals() are not here')",
        "from functools import wraps\ndef traced(f):\n    @wraps(f)\n    def inner(*a): return f(*a)\n    return inner",
        "with torch.no_grad():\n    pass",
        "import warnings\nwarnings.filterwarnings('ignore', message='compile')",
        "while True:\n    break\nelse:\n    pass",
        "def _numpy_like(x): return x.view(-1).sum",
        "event = threading_ = os_ = sys_ = None",
        "class Table(dict):\n    def __getattr__(self, name): return self[name]\nTable(sys=1).items()",
        "def grid(meta): return (triton.cdiv(64, meta['BLOCK']),)",
        "yielded = list(i for i in range(3) if i not in ())",
        "print('timing: exec', end='')",
        "lambda input, vars, open: (input, vars, open)",
        "match 3:\n    case 3: pass\n    case _: pass",
        "del_ = [1]\ndel del_[0]",
        "async_copy, stream, graph = True, None, None",
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
        # other names for the same
        ("import torch as t; t.os", "use of t.os"),
        ("t = torch; t.compile(operator)", "use of t.compile"),
        ("a, b = torch, triton; b.testing.do_bench(operator)", "use of b.testing"),
        ("(o := torch.utils).data", "use of ....data"),
        ("u: object = torch.utils; u.dlpack", "use of u.dlpack"),
        ("e = eval; e('1')", "use of eval()"),
        ("[f('1') for f in (exec,)]", "use of exec()"),
        ("i = __import__; i('os')", "use of __import__()"),
        ("__builtins__['eval']('1')", "use of __builtins__"),
        ("getattr(torch, 'o' + 's')", "use of torch.os"),
        ("getattr(torch, f'{\"o\"}s')", "use of torch.os"),
        ("hasattr(torch, 'sys')", "use of torch.sys"),
        ("getattr(operator, ''.join(('f_', 'back')))", "a name that is computed"),
        ("from torch import *", "import of everything"),
        ("torch.__dict__['os']", "use of torch.__dict__"),
        ("import operator as op; op.attrgetter('__globals__')(operator)", "__globals__"),
        ("from operator import attrgetter as g; g('a.__code__')", "__code__"),
        ("from operator import methodcaller; methodcaller('__subclasses__')(object)", "__subclasses__"),
        # modules that the standard library's hold
        ("import typing; typing.sys", "use of typing.sys"),
        ("import dataclasses; dataclasses.builtins", "use of dataclasses.builtins"),
        ("import enum; enum.bltns.eval", "use of enum.bltns"),
        ("import collections; collections._sys", "use of collections._sys"),
        ("from contextlib import os", "import of 'os'"),
        ("import contextlib as c; c.os.getpid()", "use of c.os"),
        ("import logging; logging.FileHandler('x')", "use of logging.FileHandler"),
        ("import logging.handlers", "logging.handlers"),
        ("import logging; logging.basicConfig(filename='x')", "use of logging.basicConfig"),
        ("import typing; typing.get_type_hints(operator)", "get_type_hints"),
        ("from typing import ForwardRef; ForwardRef('1')._evaluate", "_evaluate"),
        ("import copyreg", "import of 'copyreg'"),
        ("import gc", "import of 'gc'"),
        ("import threading", "import of 'threading'"),
        ("from dataclasses import make_dataclass", "make_dataclass"),
        # looking into objects
        ("'{0.__class__}'.format(operator)", "a format that looks into"),
        ("'{x[__init__]}'.format_map({})", "a format that looks into"),
        ("print.__self__", "__self__"),
        ("().__class__.__mro__", "__mro__"),
        ("operator.__getattribute__('x')", "__getattribute__"),
        ("try:\n    1/0\nexcept Exception as e: e.__traceback__.tb_frame", "tb_frame"),
        # work that is not the kernel's
        ("operator = torch.compile(operator)", "use of torch.compile"),
        ("from torch import compile as c", "'torch.compile'"),
        ("@torch.jit.script\ndef f(x): return x", "use of torch.jit.script"),
        ("torch.ops.aten.softmax(1)", "use of torch.ops.aten"),
        ("ops = torch.ops; ops.aten.add", "use of ops.aten"),
        ("torch.from_numpy(1)", "use of torch.from_numpy"),
        ("operator(1).numpy()", "use of .numpy"),
        ("import numpy", "import of 'numpy'"),
        ("torch.utils.data.DataLoader", "use of torch.utils.data"),
        ("from torch.utils.data import DataLoader", "torch.utils.data"),
        ("torch.library.Library('aten', 'IMPL')", "use of torch.library.Library"),
        ("from torch.library import Library", "'torch.library.Library'"),
        ("torch.cuda.Event()", "use of torch.cuda.Event"),
        ("g = torch.cuda.CUDAGraph()", "use of torch.cuda.CUDAGraph"),
        ("torch.load('x')", "use of torch.load"),
        ("from torch.utils._python_dispatch import TorchDispatchMode", "_python_dispatch"),
        ("class T(torch.Tensor):\n    def __torch_dispatch__(cls): pass", "__torch_dispatch__"),
        ("class T(torch.Tensor):\n    __torch_dispatch__ = print", "line 28: definition of __torch_dispatch__"),
        ("HONEST.__torch_dispatch__ = print", "assignment to __torch_dispatch__"),
        ("size = getattr(HONEST, 'a' + name)", "ParameterList, or use self.get_parameter and self.get_buffer"),
        # names mean something of their own only where they are bound
        ("def g(eval): pass\neval('1')", "eval()"),
        ("def g(): eval = 1\neval('1')", "eval()"),
        ("class G:\n    eval = 1\n    def g(self): return eval('1')", "eval()"),
        ("sizes = [open for open in ()]\nopen('x')", "open()"),
        ("def g(x=lambda eval: 0): return eval('1')", "eval()"),
        ("def g():\n    global eval\n    eval = 1\neval('1')", "eval()"),
        ("def g(torch): pass\ntorch.load('x')", "torch.load"),
        ("def g(torch=torch.load('x')): pass", "torch.load"),
        ("def g(): t.load('x')\nt = torch", "t.load"),
        ("def g():\n    global t\n    t = torch\nt.load('x')", "t.load"),
        ("def g():\n    t = None\n    def h():\n        nonlocal t\n        t = torch\n    t.load('x')", "t.load"),
        ("for _ in range(2): t.load('x'); t = k; k = torch", "t.load"),
        ("[t := torch for _ in range(2)]\nt.load('x')", "t.load"),
        # changes to the libraries
        ("import torch.nn.functional as F; F.softmax = None", "assignment to F.softmax"),
        ("for torch.allclose in (1,): pass", "assignment to torch.allclose"),
        ("torch.backends.x, y = 1, 2", "assignment to torch.backends.x"),
        ("del torch.allclose", "assignment to torch.allclose"),
        ("import warnings; warnings.showwarning = None", "assignment to warnings.showwarning"),
        ("operator.__class__ = int", "assignment to __class__"),
        ("setattr(torch, 'x', 1)", "setattr()"),
        ("s = '\u202e'", "invisible character"),
    ],
)
def test_forbidden_line_is_refused_with_its_number(line, words):
    verdict = screen(HONEST + line + "\n", entry="operator")
    assert verdict is not None
    assert verdict.outcome is Outcome.REJECTED
    assert words in verdict.message
    number, advice = re.fullmatch(r"line (\d+): [^:]+(?::[^:]+)*: (.+)", verdict.message, re.DOTALL).groups()
    assert HONEST.count("\n") < int(number) <= HONEST.count("\n") + line.count("\n") + 1
    assert len(advice) > 10, "what to do instead"


IDIOMS = """
import contextlib, copy, dataclasses, enum, functools, itertools, logging, operator, typing, warnings, collections.abc
import torch.nn as nn
import triton.language.extra.libdevice as device_library
from torch.library import custom_op, triton_op, wrap_triton
from triton.language.extra.cuda.libdevice import rsqrt
from triton import Config
from collections import OrderedDict, namedtuple
from collections.abc import Sequence
from contextlib import nullcontext, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache, partial
from typing import Any, NamedTuple, Optional

logger = logging.getLogger(__name__)
logger.debug("launching %s", "kernel")
version = tuple(int(n) for n in triton.__version__.split(".")[:2]) < (3, 9) or torch.__version__
dtype = getattr(tl, f"float{32}")
half = getattr(torch, "bfloat16", None)
biggest = torch.finfo(torch.float32).max

@triton.heuristics({"EVEN": lambda args: args["N"] % args["BLOCK"] == 0})
@triton.autotune(
    configs=[Config({"BLOCK": b}, num_warps=w) for b, w in itertools.product((64, 128), (4, 8))], key=["N"]
)
@triton.jit
def tuned(x, N, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.static_print(BLOCK)
    tl.device_assert(N > 0)
    value = tl.math.exp(tl.load(x)) + device_library.rsqrt(tl.load(x))
    tl.store(x, tl.sigmoid(value).to(tl.bfloat16))

@triton.jit
def portable(x, ON_CUDA: tl.constexpr):
    value = tl.load(x)
    if ON_CUDA:
        value = tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [value], tl.float32, True, 1)
    tl.store(x, value)

class Layers(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weights = nn.ParameterList(torch.empty(4) for _ in range(n))
        for i in range(n): self.register_buffer(f"b{i}", torch.empty(4))
    def forward(self, i): return self.weights[i], self.get_buffer(f"b{i}")

@lru_cache(maxsize=None)
def cached(n): return functools.reduce(operator.mul, (n, 2), 1)

@dataclass(frozen=True)
class Plan:
    block: int = field(default=64)
    def __post_init__(self): object.__setattr__(self, "block", 128)

class Kind(Enum):
    A = auto()
    B = enum.auto()

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.name = self.__class__.__name__
        self.w = nn.Parameter(torch.empty(4))
        nn.init.kaiming_uniform_(self.w)

class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x

def with_names(input, compile=None, open=None, vars=()):
    return input if compile is None else compile(input, open, vars)

with torch.no_grad(), torch.cuda.device(0), contextlib.suppress(ValueError), warnings.catch_warnings():
    pass
count = torch.cuda.get_device_properties(0).multi_processor_count if torch.cuda.is_available() else 1
y = torch.empty_strided((2, 3), (3, 1))
pointer, z = y.data_ptr(), torch.ops.mine.twice
text = "{} of {:.2f} at {name}".format(1, 2.0, name="x") + f"{y.shape[0]}"
size, cells = math.prod(y.shape), operator.itemgetter(1)((1, 2))
name, doc = cached.__name__, Plan.__doc__
stream = torch.cuda.current_stream() if torch.cuda.is_available() else None
other = copy.copy(y) if typing.TYPE_CHECKING else y
compiled, self_test = {"eval": 1}, "exec"
assert y.dtype in (torch.float16, torch.bfloat16), f"no kernel for {y.dtype}"

@torch.compiler.disable
def launch(x): return x

@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor: return x.clone()
"""


def test_what_kernel_libraries_write_is_left_alone():
    verdict = screen(HONEST + IDIOMS, entry="operator")
    assert verdict is None, verdict.message


def test_every_shipped_kernel_is_left_alone():
    root = Path(__file__).parents[2]
    kernels = [
        *root.glob("prompts/kernels/**/*.py"),
        *root.glob("prompts/lifted/**/*.py"),
        *root.glob("tests/cases/a*/kernel.py"),
    ]
    assert len(kernels) > 10
    for path in kernels:
        source = path.read_text(encoding="utf-8")
        entry = re.findall(r"^(?:def|class) (\w+)", source, re.MULTILINE)[-1]
        assert screen(source, entry=entry) is None, path


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


def test_several_objections_come_at_once_and_no_more_than_a_few():
    verdict = screen(HONEST + "import os\nimport sys\nimport gc\nimport io\n", entry="operator")
    assert verdict is not None
    assert [f"import of {name!r}" in verdict.message for name in ("os", "sys", "gc", "io")] == [True, True, True, False]

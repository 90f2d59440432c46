"""Kernels lifted from TorchInductor stand alone: the screen accepts them and the judge finds them right."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.check.screen import screen
from kernelsmith.evaluate.clock.lift import lift
from kernelsmith.evaluate.clock.lift_helpers import NotLiftableError
from kernelsmith.evaluate.clock.lift_source import Placeholder, Variant, rewrite
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import MODEL_SEED, Room
from kernelsmith.evaluate.truth.trivial import refuse_trivial
from kernelsmith.model import Job, OperatorRef
from kernelsmith.operators.load import LoadedOperator, load
from kernelsmith.outcome import Outcome

NATIVE = '''
"""Shifted row sum of exponentials."""
import torch
from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 4096)

@operator(x=tensor(M, N, dtypes=("float32", "bfloat16")), workloads=[workload(M=64, N=200, x="float32")])
def spread(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x - x.amax(1, keepdim=True)).sum(1)
'''

SCALAR = (
    NATIVE.replace("tensor, workload", "scalar, tensor, workload")
    .replace(
        """workloads=[workload(M=64, N=200, x="float32")]""",
        """eps=scalar(float, 1e-6, 1e-2), workloads=[workload(M=64, N=200, x="float32", eps=1e-5)]""",
    )
    .replace("x: torch.Tensor)", "x: torch.Tensor, eps: float)")
    .replace(
        "torch.exp(x - x.amax(1, keepdim=True)).sum(1)", "torch.nn.functional.rms_norm(x, (x.shape[-1],), None, eps)"
    )
)

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x)) * 2

rows = 40
features = 70
outputs = 24

def get_inputs():
    return [torch.rand(rows, features)]

def get_init_inputs():
    return [features, outputs]
"""

CONVOLUTION = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LAYER

    def forward(self, x):
        return torch.relu(self.layer(x) - 0.1)

def get_inputs():
    return [torch.rand(2, CHANNELS, SIZES)]

def get_init_inputs():
    return []
"""
COPY = """
import torch, triton
import triton.language as tl

@triton.jit
def copy(x, y, n):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        copy[(triton.cdiv(x.numel(), 64),)](x, y, x.numel())
        return y
"""
LAYERS = {
    "strided, padded, grouped": ("Conv2d(6, 10, (3, 2), stride=2, padding=1, groups=2)", 6, "9, 8"),
    "many channels": ("Conv1d(18, 5, 3, dilation=2)", 18, "12"),
    "depthwise": ("Conv2d(7, 7, 3, padding=1, groups=7)", 7, "6, 5"),
    "transposed, grouped": ("ConvTranspose3d(6, 4, 2, stride=3, output_padding=1, groups=2, bias=False)", 6, "4, 3, 2"),
}

SORTING = NATIVE.replace("torch.exp(x - x.amax(1, keepdim=True)).sum(1)", "torch.sort(x, dim=1).values")


def written(folder: Path, text: str) -> tuple[OperatorRef, LoadedOperator]:
    path = folder / "op.py"
    path.write_text(text)
    ref = OperatorRef(path=str(path))
    return ref, load(ref, model_seed=MODEL_SEED)


@pytest.fixture(scope="module")
def room():
    opened = Room("cpu")
    yield opened
    opened.close()


COLUMN = PROBLEM.replace("outputs = 24", "outputs = 1")


@pytest.mark.parametrize(
    "text", [NATIVE, SCALAR, PROBLEM, COLUMN], ids=["native", "scalar", "kernelbench", "one column"]
)
def test_lifted_kernel_is_right(tmp_path, room, text):
    ref, operator = written(tmp_path, text)
    (seed,) = lift(operator)
    assert screen(seed.source, entry=operator.info.name) is None
    assert "torch._inductor" not in seed.source
    verdict = evaluate(Job(operator=ref, target="cpu", source=seed.source, seed=3, bench=False), room)
    assert verdict.outcome is Outcome.PASSED, verdict.message


@pytest.mark.parametrize("kind", LAYERS)
def test_convolutions_become_a_triton_kernel(tmp_path, room, kind):
    layer, channels, sizes = LAYERS[kind]
    text = CONVOLUTION.replace("LAYER", layer).replace("CHANNELS", str(channels)).replace("SIZES", sizes)
    ref, operator = written(tmp_path, text)
    (seed,) = lift(operator)
    assert screen(seed.source, entry="ModelNew") is None
    job = Job(operator=ref, target="cpu", source=seed.source, seed=3, bench=False, checked=False)
    verdict = evaluate(job, room)
    assert verdict.outcome is Outcome.PASSED, verdict.message


def test_a_problem_whose_own_inputs_ask_for_no_work_is_told_apart_by_others(tmp_path, room):
    relu = CONVOLUTION.replace("nn.LAYER", "nn.Identity()").replace("- 0.1", "").replace("CHANNELS, SIZES", "40")
    ref, operator = written(tmp_path, relu)
    refuse_trivial(operator, 0)
    verdict = evaluate(Job(operator=ref, target="cpu", source=COPY, seed=3, bench=False), room)
    assert verdict.outcome is Outcome.WRONG_VALUES
    with pytest.raises(OperatorError, match="a copy of x"):
        refuse_trivial(written(tmp_path, relu.replace("torch.relu(self.layer(x) )", "x + 0.0"))[1], 0)


def test_more_blocks_than_an_axis_of_the_grid_takes_are_folded_into_the_next(tmp_path):
    code = """
k = async_compile.triton('k', '''
@triton_heuristics.pointwise(inductor_meta={'grid_type': 'Grid2DWithYZOverflow'})
@triton.jit
def k(x, ynumel, xnumel, YBLOCK: tl.constexpr, XBLOCK: tl.constexpr):
    pass
''')

def call(args):
    x, = args
    k.run(x, 70000, 9, stream=stream0)
    return (x,)
"""
    _, operator = written(tmp_path, NATIVE)
    source = rewrite([Variant(dtypes={}, code=code, placeholders=(Placeholder("L['x']", True),), marks={})], operator)
    blocks = "triton.cdiv(70000, meta['YBLOCK'])"
    folds = f"triton.cdiv({blocks}, 65535)"
    assert f"triton.cdiv(9, meta['XBLOCK']), triton.cdiv({blocks}, {folds}), {folds})" in source


def test_an_axis_that_inductor_leaves_unmasked_gets_no_larger_block_than_its_own(tmp_path):
    text = CONVOLUTION.replace("nn.LAYER", "nn.Identity()").replace("CHANNELS, SIZES", "4096, 2")
    (seed,) = lift(written(tmp_path, text)[1])
    assert "xmask = tl.full(" in seed.source
    assert "'XBLOCK': 4096" in seed.source and "'XBLOCK': 16384" not in seed.source


def test_what_a_library_does_yields_no_seed(tmp_path):
    _, operator = written(tmp_path, SORTING)
    assert lift(operator) == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("pass", "arguments"),
        ("x, = args\n    for i in range(3):\n        pass\n    return (x,)", "For statement"),
        ("x, = args\n    y = evil(x)\n    return (y,)", "calls evil"),
    ],
)
def test_a_wrapper_that_is_not_understood_is_refused(tmp_path, body, reason):
    _, operator = written(tmp_path, NATIVE)
    variant = Variant(
        dtypes={}, code=f"def call(args):\n    {body}\n", placeholders=(Placeholder("L['x']", True),), marks={}
    )
    with pytest.raises(NotLiftableError, match=reason):
        rewrite([variant], operator)

"""KernelBench problem files as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth.explore import cases
from kernelsmith.evaluate.truth.inputs import materialise
from kernelsmith.outcome import Level
from tests.operators.files import problem

LINEAR = '''
import torch.nn as nn

class Model(nn.Module):
    """A linear layer and a batch norm."""
    def __init__(self, features: int):
        super(Model, self).__init__()
        self.linear = nn.Linear(features, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, A: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(A))

batch_size = 1024
features = 16 * 4

def get_inputs():
    return [torch.rand(batch_size, features)]

def get_init_inputs():
    return [features]
'''


def test_a_problem_is_read_as_it_is(tmp_path: Path) -> None:
    op = problem(tmp_path, LINEAR)
    info = op.info
    assert (info.name, info.kind, info.dims, info.notes) == ("ModelNew", "kernelbench", (), ())
    assert info.doc == "A linear layer and a batch norm."
    assert info.arguments[0].shape == "(1024, 64)"
    assert info.ops[0] == "aten.t"
    assert "aten.native_batch_norm" in info.ops
    assert len(info.workloads) == 1


def test_the_model_is_constructed_under_the_given_seed(tmp_path: Path) -> None:
    op = problem(tmp_path, LINEAR, seed=42)
    assert op.problem is not None
    torch.manual_seed(42)
    want = torch.nn.Linear(64, 8)
    assert torch.equal(op.problem.model.linear.weight, want.weight)
    assert op.problem.init_inputs() == [64]


def test_every_call_is_a_first_call(tmp_path: Path) -> None:
    op = problem(tmp_path, LINEAR)
    (x,) = op.problem.inputs(1)
    before = op.problem.model.norm.running_mean.clone()
    first, second = op.reference(x), op.reference(x)
    assert torch.equal(first, second)
    assert torch.equal(op.problem.model.norm.running_mean, before)
    exact = op.reference_in_double(x.double())
    assert exact.dtype is torch.float64
    assert (exact - first).abs().max() < 1e-4
    op.problem.move("meta")
    assert op.reference(x.to("meta")).device.type == "meta"


def test_contents_follow_our_seeds_and_leave_torchs_generator_alone(tmp_path: Path) -> None:
    op = problem(tmp_path, LINEAR)
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    one, same, other = (op.problem.inputs(seed)[0] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_constants_are_replaced_and_shrunk_and_said(tmp_path: Path) -> None:
    op = problem(tmp_path, LINEAR, features=32, max_bytes=20_000)
    assert op.info.notes == ("batch_size shrunk from 1024 to 128 to fit --max-bytes",)
    assert op.problem.inputs(0)[0].shape == (128, 32)
    assert "batch_size = 128" in op.info.source
    assert "features = 32" in op.info.source
    wide = problem(tmp_path, LINEAR.replace("nn.Linear(features, 8)", "nn.Linear(features, 4096)").replace(
        "BatchNorm1d(8)", "BatchNorm1d(4096)"), features=32, max_bytes=1 << 20)  # fmt: skip
    assert wide.info.notes == ("batch_size shrunk from 1024 to 64 to fit --max-bytes",), "the answer has to fit too"
    heavy = problem(tmp_path, LINEAR.replace("features = 16 * 4", "features = 16384"), max_bytes=1 << 18)
    assert heavy.problem.model.linear.weight.nbytes <= 1 << 18, "the weights have to fit too"


def test_sizes_that_belong_together_shrink_together(tmp_path: Path) -> None:
    text = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, y):
        return x * y

rows = 256
shape = (256,)

def get_inputs():
    return [torch.rand(rows, *shape), torch.rand(rows)]

def get_init_inputs():
    return []
"""
    op = problem(tmp_path, text, max_bytes=20_000)
    assert [tuple(x.shape) for x in op.problem.inputs(0)] == [(64, 64), (64,)]
    assert "shape = (64,)" in op.info.source


def test_variants_of_the_contents_keep_zeros_and_stay_where_the_model_is_defined(tmp_path: Path) -> None:
    op = problem(tmp_path, LINEAR)
    kinds = [c.values for c in cases(op, level=Level.FULL, seed=0, blocks=())]
    assert [k.value for k in kinds] == ["normal", "all negative", "large", "large-mean", "tiny"]
    positive = problem(tmp_path, LINEAR.replace("self.norm(self.linear(A))", "torch.log(A)"))
    kept = [c.values.value for c in cases(positive, level=Level.FULL, seed=0, blocks=())]
    assert "all negative" not in kept
    triangle = problem(tmp_path, LINEAR.replace("[torch.rand(batch_size", "[torch.tril(torch.rand(batch_size").replace(
        "features)]", "features))]"))  # fmt: skip
    for case in cases(triangle, level=Level.FULL, seed=0, blocks=()):
        (x,) = materialise(triangle, case, 5).arguments()
        assert torch.equal(x, torch.tril(x))


def test_a_model_that_looks_at_values_is_traced_on_real_inputs(tmp_path: Path) -> None:
    text = LINEAR.replace("return self.norm(self.linear(A))", "return A * A.sum().item()")
    assert "aten._local_scalar_dense" in problem(tmp_path, text).info.ops


def test_what_is_wrong_with_a_problem(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="without get_init_inputs"):
        problem(tmp_path, LINEAR.replace("get_init_inputs", "get_more"))
    with pytest.raises(OperatorError, match="--set width: no such module constant"):
        problem(tmp_path, LINEAR, width=3)
    with pytest.raises(OperatorError, match=r"op.py:9: Model\(\*get_init_inputs\(\)\) raised RuntimeError"):
        problem(tmp_path, LINEAR.replace("nn.Linear(features, 8)", "nn.Linear(-features, 8)"))
    with pytest.raises(OperatorError, match=r"op.py:13: the reference raised"):
        problem(tmp_path, LINEAR.replace("self.linear(A)", "self.linear(A.t())"))
    with pytest.raises(OperatorError, match="do not shrink to --max-bytes 1"):
        problem(tmp_path, LINEAR.replace("= 16 * 4", "= [1]").replace("features)", "64)"), max_bytes=1)

"""Every example operator loads, and the kernel of its name is right on the CPU backend away from the tuned shapes."""

from __future__ import annotations

import ast
import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernelsmith import library
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.inputs import Case, materialise
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import LoadedOperator, load

triton = pytest.importorskip("triton")

ROOT = Path(__file__).parents[1]
OPERATORS = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
KERNELS = {path.stem: path for path in sorted((ROOT / "prompts" / "kernels").glob("*/*.py"))}
ODD = (7, 130, 5, 33, 3)
"""Sizes no block divides, dealt out to the dims in turn."""
RELATIVE = {torch.float32: 2e-5, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
"""Of the largest magnitude of the truth: a few rounding units of each dtype."""
LONG = {"softmax": "N", "rms_norm": "N", "layer_norm": "N", "add_rms_norm": "N", "quantize_int8": "N", "argmax": "V"}
"""Kernels that walk rows too long for one block, and the dim that makes them long."""


@pytest.fixture
def configuration(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which of its configurations every autotuned kernel runs with: the number in the list, without a search."""
    chosen = [0]

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = self.configs[chosen[0] % len(self.configs)]
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    monkeypatch.setattr("triton.runtime.autotuner.Autotuner.run", run)
    return chosen


def operator(name: str) -> LoadedOperator:
    return load(OperatorRef(path=str(OPERATORS[name])))


def kernel(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"kernel_{name}", KERNELS[name])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def odd_dims(op: LoadedOperator) -> dict[str, int]:
    return {d.name: min(max(d.low, ODD[i % len(ODD)]), d.high) for i, d in enumerate(op.dims)}


def tensors(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def check(op: LoadedOperator, host: Any, case: Case) -> None:
    inputs = materialise(op, case, seed=1)
    got, plain = tensors(host(*inputs.arguments())), tensors(op.reference(*inputs.arguments()))
    doubled = [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in inputs.arguments()]
    assert [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in plain]
    if op.check is not None:
        one = len(got) == 1
        assert op.check(got[0] if one else tuple(got), plain[0] if one else tuple(plain), *inputs.arguments())
        return
    for out, truth in zip(got, tensors(op.reference(*doubled)), strict=True):
        finite = truth[truth.isfinite()]
        scale = finite.abs().max().item() if finite.numel() else 0.0
        bound = RELATIVE[out.dtype]
        torch.testing.assert_close(out.double(), truth, rtol=bound, atol=bound * scale, equal_nan=True)


def case(op: LoadedOperator, dims: dict[str, int], dtypes: dict[str, str], **more: Any) -> Case:
    return Case(dims=dims, dtypes=dtypes, scalars=op.workloads[0].scalars, **more)


def test_there_is_a_kernel_for_every_operator() -> None:
    assert len(OPERATORS) >= 12
    assert KERNELS.keys() >= OPERATORS.keys()


@pytest.mark.parametrize("name", OPERATORS)
def test_kernel_is_called_like_its_operator_and_fits_a_prompt(name: str) -> None:
    source = KERNELS[name].read_text()
    tree = ast.parse(source)
    (host,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    function = operator(name).function
    assert [a.arg for a in host.args.args] == list(function.__code__.co_varnames[: function.__code__.co_argcount])
    assert ast.get_docstring(tree)
    assert len(source.splitlines()) <= 90


@pytest.mark.parametrize("name", OPERATORS)
def test_kernel_is_right_at_odd_sizes_in_every_dtype(name: str, configuration: list[int]) -> None:
    op, host = operator(name), getattr(kernel(name), name)
    for number, dtypes in enumerate(op.dtype_sets):
        configuration[0] = number
        check(op, host, case(op, odd_dims(op), dtypes))
        check(op, host, case(op, {d.name: d.low for d in op.dims}, dtypes))


@pytest.mark.parametrize("name", OPERATORS)
def test_kernel_is_right_in_every_configuration(name: str, configuration: list[int]) -> None:
    op, module = operator(name), kernel(name)
    tuned = [v for v in vars(module).values() if isinstance(v, triton.runtime.autotuner.Autotuner)]
    assert tuned
    for number in range(max(len(t.configs) if t.configs[0].kwargs else 1 for t in tuned[:1])):
        configuration[0] = number
        check(op, getattr(module, name), case(op, odd_dims(op), op.dtype_sets[0]))


@pytest.mark.parametrize("name", LONG)
def test_kernel_is_right_on_rows_that_fit_no_block(name: str, configuration: list[int]) -> None:
    op, host = operator(name), getattr(kernel(name), name)
    dims = {d.name: 2 for d in op.dims} | {LONG[name]: 16999}
    check(op, host, case(op, dims, op.dtype_sets[-1]))


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "cross_entropy"])
def test_rows_may_be_slices_of_wider_ones(name: str, configuration: list[int]) -> None:
    op, host = operator(name), getattr(kernel(name), name)
    first = next(iter(op.arguments))
    check(op, host, case(op, odd_dims(op), op.dtype_sets[0], layouts={first: "rows sliced"}))


@pytest.mark.parametrize("values", [Values.ONE_NAN, Values.INFS, Values.MASKED, Values.TIES, Values.CONSTANT])
def test_argmax_of_special_values(values: Values, configuration: list[int]) -> None:
    op, host = operator("argmax"), kernel("argmax").argmax
    check(op, host, case(op, {"M": 5, "V": 1000}, op.dtype_sets[0], values=values))


def test_softmax_of_special_rows(configuration: list[int]) -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, 2.0], [-inf, -inf, -inf], [inf, 1.0, 2.0], [-inf, 1.0, 2.0]])
    torch.testing.assert_close(kernel("softmax").softmax(x), torch.softmax(x, -1), equal_nan=True)


def test_cross_entropy_of_masked_vocabularies(configuration: list[int]) -> None:
    logits = torch.randn(3, 3000)
    logits[0, :2500] = float("-inf")
    logits[1, 7] = float("nan")
    logits[2] = float("-inf")
    target = torch.tensor([2999, 5, 0])
    expected = torch.nn.functional.cross_entropy(logits, target, reduction="none")
    got = kernel("cross_entropy").cross_entropy(logits, target)
    torch.testing.assert_close(got, expected, equal_nan=True)


def test_the_suite_names_examples_that_exist() -> None:
    suite = tomllib.loads((ROOT / "examples" / "suite.toml").read_text())
    assert [(ROOT / "examples" / item["op"]).exists() for item in suite["item"]] == [True] * 3


def test_every_example_finds_its_own_kernel_first() -> None:
    for name in OPERATORS:
        assert library.ranked(operator(name).info)[0].name == name

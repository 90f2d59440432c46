"""torch.compile with TorchInductor's Triton code on this backend, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config

from kernelsmith.triton_cpu.driver import CPUDriver

Function = Callable[..., Any]
TILES = {"rtol": 1e-4, "atol": 1e-4}
"""Sums in tiles are added in another order than eager's."""


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """TorchInductor set to this backend, with caches of its own; the list grows by one per kernel launch."""
    counted: list[int] = []
    plain: Any = CPUDriver.launcher_cls

    class Counting(plain):  # type: ignore[misc]
        def __call__(self, *arguments: Any) -> None:
            counted.append(1)
            super().__call__(*arguments)

    monkeypatch.setattr(CPUDriver, "launcher_cls", Counting)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    torch._dynamo.reset()
    # Deterministic: one configuration per reduction, so that nothing is timed.
    with config.patch(cpu_backend="triton", compile_threads=1, fx_graph_cache=False, deterministic=True):
        yield counted
    torch._dynamo.reset()


def ties(*shape: int) -> torch.Tensor:
    x = torch.randint(-3, 3, shape).float()
    x[0, 2], x[0, 5], x[1, 1] = float("nan"), float("inf"), float("nan")
    return x


def rows_and_columns(x: torch.Tensor) -> Any:
    return x.softmax(-1), x.sum(0), x.std(), x.argmax(-1), x.cumsum(1)


def integers(x: torch.Tensor) -> Any:
    return x // 3, x % 5, x >> 1, x.float() / 7, (x > 4).sum(1)


def sort(x: torch.Tensor) -> Any:
    return torch.sort(x, stable=True)


def norm(x: torch.Tensor) -> Any:
    return F.gelu(F.layer_norm(x, (x.shape[-1],)))


def scatter(x: torch.Tensor) -> Any:
    index = (torch.arange(x.shape[0]) * 7) % 5
    return torch.zeros_like(x).index_put((index,), x, accumulate=True)


@pytest.mark.parametrize(
    ("function", "x", "tolerances"),
    [
        (rows_and_columns, torch.linspace(-2, 3, 37 * 300).sin().view(37, 300), TILES),
        (integers, torch.arange(-60, 60).view(4, 30), {}),
        (sort, ties(3, 70), {}),
        (norm, torch.linspace(-2, 3, 300).view(3, 100).bfloat16(), {}),
        (scatter, torch.arange(80.0).view(20, 4), {}),
    ],
    ids=["rows and columns", "integers", "sort", "norm in bfloat16", "scatter"],
)
def test_what_inductor_writes_in_triton(
    launches: list[int], function: Function, x: torch.Tensor, tolerances: dict[str, Any]
) -> None:
    actual = torch.compile(function)(x)
    torch.testing.assert_close(actual, function(x), equal_nan=True, **tolerances)
    assert launches, "no Triton kernel ran"


def test_symbolic_shapes(launches: list[int]) -> None:
    compiled = torch.compile(rows_and_columns, dynamic=True)
    for shape in ((3, 5), (7, 2049), (130, 33)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), rows_and_columns(x), **TILES)
    assert launches, "no Triton kernel ran"


def test_forward_and_backward(launches: list[int]) -> None:
    x, target = torch.randn(9, 40, requires_grad=True), torch.randint(0, 40, (9,))
    (expected,) = torch.autograd.grad(F.cross_entropy(x, target), x)
    (actual,) = torch.autograd.grad(torch.compile(F.cross_entropy)(x, target), x)
    torch.testing.assert_close(actual, expected)
    assert launches, "no Triton kernel ran"

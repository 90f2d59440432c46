"""Constructs that some devices lack or are slow at: each found, and beside each what is nearly the same and is none."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernelsmith.compiled import Build, Chip, Found, Resources
from kernelsmith.offline.fit import fit
from kernelsmith.offline.lint import found_in, found_in_source, keywords_in
from kernelsmith.targets import Construct, load


@triton.jit
def int64_math(x, y):
    at = tl.arange(0, 64)
    tl.store(y + at, tl.load(x + at) * 3)


@triton.jit
def int64_offsets(x, y, step):
    at = tl.arange(0, 64).to(tl.int64) * step
    tl.store(y + at, tl.load(x + at), mask=at < step)


@triton.jit
def compared(x, y):
    at = tl.arange(0, 64)
    value = tl.load(x + at)
    tl.store(y + at, tl.where(value > 3, value, 0))


@triton.jit
def gathered(x, y):
    at = tl.arange(0, 64)
    tl.store(y + at, tl.load(x + tl.load(y + at)))


@triton.jit
def folded(x, y):
    at = tl.arange(0, 64)
    tl.store(y + at, tl.load(x + at % 7))


@triton.jit
def row_of_a_loaded_scalar(x, y):
    at = tl.arange(0, 64)
    tl.store(y + at, tl.load(x + tl.load(y) * 64 + at))


@triton.jit
def masked_with_other(x, y, n):
    at = tl.arange(0, 64)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0), mask=at < n)


@triton.jit
def atomics_in_a_loop(x, y, n):
    for start in range(n):
        tl.atomic_add(y + start, 1)


@triton.jit
def atomic_after_a_loop(x, y, n):
    total = tl.load(x)
    for start in range(1, n):
        total += tl.load(x + start)
    tl.atomic_add(y, total)


@triton.jit
def permuted(x, y):
    a, b, c = tl.arange(0, 4), tl.arange(0, 8), tl.arange(0, 16)
    at = a[:, None, None] * 128 + b[None, :, None] * 16 + c[None, None, :]
    far = c[:, None, None] * 32 + b[None, :, None] * 4 + a[None, None, :]
    tl.store(y + far, tl.permute(tl.load(x + at), (2, 1, 0)))


@triton.jit
def neighbours_exchanged(x, y):
    a, b = tl.arange(0, 4), tl.arange(0, 8)
    tl.store(y + b[:, None] * 4 + a[None, :], tl.trans(tl.load(x + a[:, None] * 8 + b[None, :])))


def ttir(kernel: Any, **kinds: str) -> str:
    """As it is compiled for an NVIDIA GPU."""
    return str(triton.compile(ASTSource(kernel, kinds, {}), target=GPUTarget("cuda", 90, 32)).asm["ttir"])


def found(kernel: Any, dtype: str = "i32") -> set[str]:
    names = kernel.arg_names
    kinds = {name: f"*{dtype}" if name in ("x", "y") else "i32" for name in names}
    return {one.what for one in found_in(ttir(kernel, **kinds), kernel.__name__)}


@pytest.mark.parametrize(
    ("kernel", "dtype", "construct", "twin"),
    [
        (int64_math, "i64", Construct.INT64_MATH, int64_offsets),
        (compared, "i32", Construct.INT32_COMPARE, masked_with_other),
        (compared, "i64", Construct.INT64_COMPARE, int64_offsets),
        (gathered, "i32", Construct.DISCRETE_ACCESS, row_of_a_loaded_scalar),
        (folded, "i32", Construct.DISCRETE_ACCESS, masked_with_other),
        (atomics_in_a_loop, "i32", Construct.ATOMIC_IN_LOOP, atomic_after_a_loop),
        (permuted, "i32", Construct.PERMUTE_APART, neighbours_exchanged),
    ],
)
def test_found_and_its_twin_is_not(kernel: Any, dtype: str, construct: Construct, twin: Any) -> None:
    assert construct.value in found(kernel, dtype)
    assert construct.value not in found(twin, "i32")


def test_dtypes() -> None:
    assert Construct.FLOAT64.value in found(masked_with_other, "fp64")
    assert Construct.FLOAT64.value not in found(masked_with_other, "fp32")
    assert Construct.ATOMIC_INT64.value in found(atomic_after_a_loop, "i64")
    assert Construct.ATOMIC_INT64.value not in found(atomic_after_a_loop, "i32")


SOURCE = """
import random
import triton
import triton.language as tl

def host(x):
    return sorted(x), random.random(), x.sort()

@triton.jit
def kernel(x):
    # tl.sort(x)
    value = tl.{call}
    note = "tl.rand(1, 2)"
"""


def test_calls_are_found_in_kernels_only() -> None:
    assert found_in_source(SOURCE.format(call="load(x)")) == ()
    assert found_in_source(SOURCE.format(call="sort(x)")) == (Found(what="sort", line=12),)
    assert found_in_source("def broken(:") == ()


@pytest.mark.parametrize("rest", ["mask=m", "m", "mask=m, care_padding=True"])
def test_masked_lanes_that_are_filled_though_nobody_asked(rest: str) -> None:
    (found,) = found_in_source(SOURCE.format(call=f"load(x, {rest})"))
    assert (found.what, found.line) == (Construct.MASKED_LOAD_PADDING.value, 12)


@pytest.mark.parametrize("rest", ["mask=m, care_padding=False", "mask=m, other=0", "m, 0.0", "**more"])
def test_masked_lanes_that_are_not(rest: str) -> None:
    assert found_in_source(SOURCE.format(call=f"load(x, {rest})")) == ()


def test_options_that_somebody_wrote_down() -> None:
    assert "num_warps" in keywords_in("configs = [triton.Config({'B': 1}, num_warps=4)]")
    assert "num_warps" not in keywords_in("num_warps = 4  # num_warps=8")


def test_the_target_says_what_it_thinks_of_it() -> None:
    target = load("ascend-910b3")
    build = Build(
        kernel="k",
        chip=Chip(backend="npu", arch="Ascend910B3", warp_size=0),
        resources=Resources(warps=1, threads=1),
        options={"num_warps": 4},
        constructs=(Found(what="sort", line=12), Found(what="many_warps")),
    )
    warnings = fit(build, target).warnings
    assert warnings[0].startswith("line 12: unsupported: tl.sort compiles and is not supported")
    assert warnings[1:] == ("num_warps: without effect on an ascend-910b3",)
    assert fit(build, load("nvidia-h100")).warnings == (), "another device has nothing against it"

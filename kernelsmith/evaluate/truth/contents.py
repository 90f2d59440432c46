"""Kinds of tensor contents, each chosen because a class of faults shows on it and on little else.

`fill` draws one tensor; it respects the declared range, words and dtype. The kinds follow from reports of real kernel
faults: padding that enters a reduction shows on negative values, a missing maximum on a mean of 100, a narrow
accumulator on +500/-499, a dropped NaN on one NaN, sampling on a spike at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch

from kernelsmith.operators.declare import Word


class Values(StrEnum):
    """Kind of contents of a case."""

    NORMAL = "normal"
    SHIFTED = "large-mean"
    NEGATIVE = "all negative"
    LARGE = "large"
    TINY = "tiny"
    RAMP = "ramp"
    SPIKE = "spike at the end"
    SPIKE_FIRST = "spike at the start"
    SPIKE_INSIDE = "spike inside"
    """Where the second of two halves of a block begins, for the usual sizes of blocks."""
    DENORMAL = "partly denormal"
    TIES = "tied"
    CONSTANT = "near-constant"
    CANCELLING = "half +500, half -499"
    ZEROS = "signed zero"
    ONE_NAN = "one NaN"
    INFS = "infinite"
    MASKED = "-inf masked"
    DUPLICATES = "duplicate"
    EXTREMES = "extreme"


SPECIAL: dict[Values, Word] = {Values.ONE_NAN: Word.NAN, Values.INFS: Word.INF, Values.MASKED: Word.MINUS_INF}
"""Kinds that need a word in the declaration (or `any`)."""


_INSIDE = 32
"""Lanes in a warp, and half of the smallest usual block."""


BESIDE: dict[Values, Values] = {Values.CANCELLING: Values.CONSTANT}
"""What the other arguments hold beside one with such contents, if they are not normal. Times values near one the
partial sums of a product grow as those of a plain sum do; times normal ones they would not leave float16."""


@dataclass(frozen=True)
class TensorRequest:
    """What is asked of one tensor's contents."""

    shape: tuple[int, ...]
    dtype: str
    low: float | None = None
    high: float | None = None
    words: frozenset[Word] = frozenset()

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype = getattr(torch, self.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype

    def allows(self, kind: Values) -> bool:
        """Whether this kind differs from normal values here and stays inside the declaration."""
        floating = self.torch_dtype.is_floating_point
        if kind in SPECIAL:
            return floating and bool({SPECIAL[kind], Word.ANY} & self.words)
        if kind in (Values.DUPLICATES, Values.EXTREMES):
            return not floating and self.dtype != "bool" and not self.words & {Word.DISTINCT}
        if not floating:
            return kind is Values.NORMAL
        if kind in (Values.NEGATIVE, Values.CANCELLING) and (
            Word.POSITIVE in self.words or (self.low is not None and self.low >= 0)
        ):
            return False
        if kind in (Values.TIES, Values.CONSTANT, Values.ZEROS) and Word.DISTINCT in self.words:
            return False
        return not (kind is Values.ZEROS and Word.POSITIVE in self.words)


def fill(request: TensorRequest, kind: Values, generator: torch.Generator) -> torch.Tensor:
    """A contiguous tensor as requested; kinds the request does not allow fall back to normal values."""
    kind = kind if request.allows(kind) else Values.NORMAL
    dtype = request.torch_dtype
    if dtype is torch.bool:
        return torch.rand(request.shape, generator=generator) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return _floats(request, kind, generator)
    return _integers(request, kind, generator)


def _integers(request: TensorRequest, kind: Values, generator: torch.Generator) -> torch.Tensor:
    info = torch.iinfo(request.torch_dtype)
    bounded = request.low is not None or request.high is not None
    low = int(request.low) if request.low is not None else max(info.min, -1024)
    high = int(request.high) if request.high is not None else min(info.max, 1024)
    if Word.POSITIVE in request.words:
        low = max(low, 1)
    shape, last = request.shape, request.shape[-1] if request.shape else 1
    if Word.OFFSETS in request.words:
        return _offsets(request, low, high, kind, generator)
    if low >= high:
        return torch.full(shape, low, dtype=request.torch_dtype)
    if Word.DISTINCT in request.words and high - low >= last:
        rows = max(1, torch.Size(shape).numel() // max(1, last))
        drawn = torch.stack([torch.randperm(high - low, generator=generator)[:last] for _ in range(rows)])
        out = (drawn + low).reshape(shape)
    elif kind is Values.DUPLICATES:
        out = torch.randint(low, min(high, low + max(1, min(8, (high - low) // 4))), shape, generator=generator)
    elif kind is Values.EXTREMES:
        smallest, largest = (low, high - 1) if bounded else (info.min, info.max)
        pick = torch.rand(shape, generator=generator) < 0.5
        out = torch.where(pick, torch.tensor(smallest), torch.tensor(largest))
        if out.numel():  # padding that is not the smallest shows in a row where all are
            out.view(-1, last)[1::3] = smallest
    else:
        out = torch.randint(low, high, shape, generator=generator)
    if Word.SORTED in request.words and shape:
        out = out.sort(dim=-1).values
    return out.to(request.torch_dtype)


def _offsets(request: TensorRequest, low: int, high: int, kind: Values, generator: torch.Generator) -> torch.Tensor:
    """Segment boundaries; under `duplicate` most segments are empty."""
    n = request.shape[-1]
    cuts = torch.randint(low, high + 1, request.shape, generator=generator).sort(dim=-1).values
    if kind is Values.DUPLICATES and n > 2:
        cuts[..., 1 : n // 2 + 1] = low
    cuts[..., 0], cuts[..., -1] = low, high
    return cuts.to(request.torch_dtype)


def _floats(request: TensorRequest, kind: Values, generator: torch.Generator) -> torch.Tensor:
    shape, dtype = request.shape, request.torch_dtype
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=dtype)
    drawn = torch.float64 if dtype is torch.float64 else torch.float32
    x = _shaped(torch.randn(shape, generator=generator, dtype=drawn), kind, dtype)
    if Word.POSITIVE in request.words:
        x = x.abs() + (1e-3 if kind is not Values.TINY else 0.0)
    x = _ranged(x, request, generator)
    if Word.DISTINCT in request.words and shape:
        x = _distinct(x, request)
    if Word.SORTED in request.words and shape:
        x = x.sort(dim=-1).values
    x = x.to(dtype)
    if kind in SPECIAL and x.numel():
        _plant(x, kind)
    return x


def _shaped(x: torch.Tensor, kind: Values, dtype: torch.dtype) -> torch.Tensor:
    """Normal draws turned into `kind`; magnitudes stay inside the dtype, partial sums may leave float16."""
    if not x.numel():
        return x
    last = x.shape[-1] if x.dim() else 1
    limit = float(torch.finfo(dtype).max)
    if kind is Values.SHIFTED:
        return x + 100
    if kind is Values.NEGATIVE:
        return -x.abs() - 0.5
    if kind is Values.LARGE:
        return (x * 400).clamp(-limit / 2, limit / 2) if limit < 1e5 else x * 1e4
    if kind is Values.TINY:
        return x * (1e-3 if limit < 1e5 else 1e-9)
    if kind is Values.RAMP:
        return torch.arange(last, dtype=x.dtype).div(last).reshape([-1] * bool(x.dim())) + x * 1e-3
    if kind is Values.SPIKE and x.dim():
        x[..., max(0, last - 5) :] += 50
        return x
    if kind is Values.SPIKE_FIRST and x.dim():
        x[..., 0] += 50
        return x
    if kind is Values.SPIKE_INSIDE and x.dim():
        x[..., min(last - 1, _INSIDE)] += 50
        return x
    if kind is Values.DENORMAL:  # among others: nothing but denormals leaves no digits to compare
        return torch.where(x.abs() < 0.7, x * float(torch.finfo(dtype).smallest_normal), x)
    if kind is Values.TIES:
        return x.mul(2).round().div(2)
    if kind is Values.CONSTANT:
        return 1 + x.abs().clamp(max=1) * 0.25
    if kind is Values.CANCELLING and x.dim():
        x = x.mul(0.1).round()
        x[..., : last // 2] += 500
        x[..., last // 2 :] -= 499
        return x
    if kind is Values.ZEROS:
        return torch.where(x.abs() < 0.7, torch.copysign(torch.zeros_like(x), x), x)
    return x


def _ranged(x: torch.Tensor, request: TensorRequest, generator: torch.Generator) -> torch.Tensor:
    """Values moved into the declared range, keeping as much of their kind as fits."""
    low, high = request.low, request.high
    if low is not None and high is not None:
        outside = (x < low) | (x > high)
        redrawn = torch.rand(x.shape, generator=generator) * (high - low) + low
        return torch.where(outside, redrawn, x).clamp(low, high)
    if low is not None:
        return torch.where(x < low, 2 * low - x, x)
    if high is not None:
        return torch.where(x > high, 2 * high - x, x)
    return x


def _distinct(x: torch.Tensor, request: TensorRequest) -> torch.Tensor:
    """Values of the last dim spread so that no two are equal in the dtype (as far as it has so many values)."""
    last = x.shape[-1]
    ranks = x.argsort(dim=-1).argsort(dim=-1)
    low = request.low if request.low is not None else -2.0
    high = request.high if request.high is not None else 2.0
    return low + (ranks + 0.5) / last * (high - low)


def _plant(x: torch.Tensor, kind: Values) -> None:
    """NaN or infinities written in: one NaN in the middle; infinities of both signs; a -inf tail on every row, and all
    of every third row, as where all keys of a query are masked."""
    flat = x.view(-1)
    middle = flat.numel() // 2
    if kind is Values.ONE_NAN:
        flat[middle] = float("nan")
    elif kind is Values.INFS:
        flat[middle] = float("inf")
        if flat.numel() > 8:
            flat[flat.numel() // 7] = float("-inf")
    elif x.dim():
        x[..., -(-x.shape[-1] // 3) :] = float("-inf")
        x.view(-1, x.shape[-1])[1::3] = float("-inf")

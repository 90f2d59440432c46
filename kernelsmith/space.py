"""Points and boxes of an operator's input space, and what is known about them. Frozen records; no torch."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from kernelsmith.base import Frozen, Scalar


def interval(low: int, high: int) -> str:
    """`9`, or `33..40`: both ends included."""
    return str(low) if low == high else f"{low}..{high}"


class Where(Frozen):
    """The case at which a candidate failed first."""

    dims: dict[str, int] = {}
    dtypes: dict[str, str] = {}
    layouts: dict[str, str] = {}
    scalars: dict[str, Scalar | None] = {}
    values: str = ""
    """Kind of contents, for example `normal`, `one NaN`, `all negative`."""
    call: int = 0
    """Which call in the sequence on this input, from 0."""
    replay: bool = False
    """True: found in the replay of the launch plan; False: in a real call of the host function."""

    def describe(self) -> str:
        parts = [f"{k}={v}" for k, v in (self.dims | self.dtypes | self.scalars).items()]
        parts += [f"{k} {v}" for k, v in self.layouts.items() if v != "contiguous"]
        parts += [self.values] if self.values else []
        parts += [f"call {self.call}"] if self.call else []
        return ", ".join(parts) or "the given inputs"


class RegionStatus(StrEnum):
    SWEPT = "swept"
    SAMPLED = "sampled"
    REFUTED = "refuted"


class Region(Frozen):
    """A box of the input space and what is known about it."""

    dims: dict[str, tuple[int, int]] = {}
    dtypes: dict[str, str] = {}
    layouts: dict[str, str] = {}
    scalars: dict[str, Scalar | None] = {}
    status: RegionStatus


class Sweep(Frozen):
    """Every size of one dim in a range: `N=1..4096`, or `N=1..4096:8` for every eighth."""

    name: str
    low: int = Field(ge=0)
    high: int
    """Included."""
    step: int = Field(default=1, gt=0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.high < self.low:
            raise ValueError(f"the sweep of {self.name} ends at {self.high}, before it begins at {self.low}")
        return self

    @property
    def sizes(self) -> range:
        return range(self.low, self.high + 1, self.step)

    def __str__(self) -> str:
        return f"{self.name}={self.low}..{self.high}" + (f":{self.step}" if self.step > 1 else "")

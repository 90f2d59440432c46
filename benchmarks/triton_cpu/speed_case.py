"""What a row of the speed table is made of; its cases live in the `speed_*` modules beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Call = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Work:
    """One problem: the same arguments for a Triton kernel's host function and for plain PyTorch.

    `ours` and `eager` allocate and return their output, as a program's own functions would; `eager` is also what
    torch.compile gets. The two agree within `rtol` and `atol`, compared in float64.
    """

    arguments: tuple[torch.Tensor, ...]
    ours: Call
    eager: Call
    rtol: float
    atol: float


@dataclass(frozen=True)
class Case:
    """A row: `goal` is the least speed-up over the better of eager and torch.compile that passes; `hand_written` is
    what C++ of the same shape, written by hand, reached on the machine this backend was developed on.

    `prepare` makes the inputs, from torch's global random generator, and is called when the row's turn comes.
    """

    name: str
    goal: float
    hand_written: float | None
    prepare: Callable[[], Work]

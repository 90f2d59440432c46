"""Which of many runs were right, and whether equal inputs gave equal bits.

Every byte that a run left is compared here, in a private copy. That a run took place is its process's word: one that
keeps answers can hand them out again. A run that left the bytes of one that was judged right before, on the same
contents, is right; any other is judged by the truth. So thousands of runs cost no more than hashing what they left.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from kernelsmith.evaluate.repeat.causes import Count, Replaying
from kernelsmith.evaluate.sessions import transport
from kernelsmith.evaluate.sessions.transport import Bytes
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.sandbox.wire.arguments import Region
from kernelsmith.sandbox.wire.many import nbytes
from kernelsmith.sandbox.wire.messages import OutputTensor, Structure

Judged = Callable[[Known, Structure | None, list[torch.Tensor], list[torch.Tensor]], Finding | None]
"""What is wrong with an answer: `Checker.judged`, and how it is held where that is known."""


@dataclass(frozen=True)
class Left:
    """What one run left, in a private copy of its arena."""

    memory: Bytes
    storages: tuple[Region, ...]
    outputs: tuple[OutputTensor, ...]
    structure: Structure | None = None
    """None for a replay, whose outputs are those of the plan."""

    @property
    def digest(self) -> bytes:
        """Of its bytes, and of how they are to be read."""
        told = hashlib.blake2b(digest_size=16)
        for region in self.storages:
            told.update(self.memory[region.offset : region.offset + region.nbytes].data)
        for one in self.outputs:
            told.update(f"{one.dtype}{one.shape}{one.strides}{one.offset is None}".encode())
            if one.offset is not None:
                told.update(self.memory[one.offset : one.offset + nbytes(one)].data)
        return told.digest()

    def returned(self) -> list[torch.Tensor]:
        return transport.tensors(self.memory, self.outputs)

    def after(self) -> list[torch.Tensor]:
        """The storages of the inputs as the run left them."""
        return [torch.from_numpy(self.memory[r.offset : r.offset + r.nbytes]) for r in self.storages]


@dataclass
class Tally:
    """Runs of one case, so far. `judged` says what is wrong with an answer that is new."""

    judged: Judged
    runs: int = 0
    wrong: int = 0
    bitwise: bool = True
    ulp: float = 0.0
    finding: Finding | None = None
    """What was wrong first."""
    wrong_on: Counter[int] = field(default_factory=Counter)
    """Wrong runs by content, in the order in which contents were first wrong."""
    ways: dict[Replaying, Count] = field(default_factory=dict)
    """Replays by how they ran."""
    _right: dict[int, dict[bytes, None]] = field(default_factory=dict)
    """Digests of right answers, by content."""
    _first: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    """What the first right run on a content gave."""

    @property
    def varies(self) -> bool:
        """Whether equal inputs gave both right and wrong answers."""
        return any(self._right.get(content) for content in self.wrong_on)

    @property
    def contents(self) -> int:
        """Different contents that were run."""
        return len(self._right)

    def take(self, content: int, known: Known, left: Left, way: Replaying | None = None) -> bool:
        """Count a run on the content with this number, for a replay with how it ran; whether it was right."""
        right = self._take(content, known, left)
        if way is not None:
            count = self.ways.setdefault(way, Count())
            count.runs += 1
            count.wrong += not right
        return right

    def _take(self, content: int, known: Known, left: Left) -> bool:
        self.runs += 1
        right, digest = self._right.setdefault(content, {}), left.digest
        if digest in right:
            return True
        returned, after = left.returned(), left.after()
        finding = self.judged(known, left.structure, returned, after)
        if finding is not None:
            self.wrong += 1
            self.wrong_on[content] += 1
            self.finding = self.finding or finding
            return False
        answers = [*returned, *_mutated(known, after)]
        if right:
            self.bitwise = False
            self.ulp = max(self.ulp, *map(ulp_apart, self._first[content], answers))
        else:
            self._first[content] = answers
        right[digest] = None
        return True


def ulp_apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """Largest difference of two answers, in units in the last place of `one`; 0 where they are no floats, or where
    only one of them is finite."""
    if not one.is_floating_point() or one.shape != other.shape or not one.numel():
        return 0.0
    a, b = one.double(), other.double()
    info = torch.finfo(one.dtype)
    unit = info.eps * torch.exp2(torch.floor(torch.log2(a.abs().clamp_min(info.tiny))))
    return float(((a - b).abs() / unit).nan_to_num(0.0, 0.0, 0.0).max())


def _mutated(known: Known, after: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    numbers = [e.mutated for e in known.truth.outputs if e.mutated is not None]
    # copies: a view would keep the memory of all runs of its message
    return [known.inputs.buffers()[number].on(after[number]).clone() for number in numbers]

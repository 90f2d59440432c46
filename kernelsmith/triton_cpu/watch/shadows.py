"""What a checked launch knows about memory: which elements a view holds, who wrote them, who read them.

Shadows are arrays with an entry per granule of memory, the size of the smallest element by which a launch addresses
it; cpp/checked_abi.h says what the entries mean. A program instance's number is unique over all launches of a `Memory`,
so shadows are kept between launches and need no clearing. Used by `monitor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from kernelsmith.errors import UsageError

_Entry = TypeVar("_Entry", bound=np.generic)
_FIRST_PROGRAM = 2  # 0: nobody wrote it; 1: it was written before any launch
_LAST_PROGRAM = 2**32 - 2**16
_KEPT_BYTES = 1 << 30


@dataclass(frozen=True)
class Segment:
    """The elements that a pointer argument may reach: a tensor view. Strides and sizes count elements."""

    address: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    name: str = ""

    @property
    def nbytes(self) -> int:
        """From the first byte of the first element to the last byte of the last one."""
        if 0 in self.shape:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.itemsize

    @property
    def dense(self) -> bool:
        """Whether every element between the first and the last belongs to the view."""
        expected = 1
        pairs = sorted((stride, size) for stride, size in zip(self.strides, self.shape, strict=True) if size > 1)
        for stride, size in pairs:
            if stride > expected:
                return False
            expected = max(expected, (size - 1) * stride + expected)
        return True

    def index(self, element: int) -> tuple[int, ...] | None:
        """Index of the element that lies `element` places behind the first; None if it is none of the view's."""
        order = sorted(range(len(self.shape)), key=lambda d: -self.strides[d])
        place, rest = [0] * len(self.shape), element
        for d in order:
            if self.strides[d] > 0 and self.shape[d] > 1:
                place[d] = min(rest // self.strides[d], self.shape[d] - 1)
                rest -= place[d] * self.strides[d]
        return tuple(place) if rest == 0 and 0 not in self.shape else None


@dataclass
class Shadow:
    """The shadows of a stretch of memory. Arrays appear when a launch needs them."""

    address: int
    nbytes: int
    granule: int
    owner: NDArray[np.uint32]
    arrays: dict[str, NDArray[np.generic]] = field(default_factory=dict)

    def array(self, name: str, kind: type[np.generic]) -> NDArray[np.generic]:
        """A further array of one entry per granule, zero at first. A vector's width past the end belongs to it."""
        if name not in self.arrays:
            self.arrays[name] = np.zeros(len(self.owner), kind)
        return self.arrays[name]

    def offset(self, address: int) -> int:
        return (address - self.address) // self.granule


_SLACK = 16  # the widest vector reads this many entries


class Memory:
    """Shadows across the launches of one replay.

    With `assume_written`, memory that was never declared counts as written: a driver does not see what torch does to
    it. Else what was never declared was never written.
    """

    def __init__(self, *, assume_written: bool) -> None:
        self.assume_written = assume_written
        self._declared: list[tuple[int, int, bool]] = []
        self._shadows: list[Shadow] = []
        self._next = _FIRST_PROGRAM

    def declare(self, address: int, nbytes: int, *, written: bool) -> None:
        """Say of some bytes whether they hold something yet. What was known about them is forgotten."""
        end = address + nbytes
        self._declared = [(a, n, w) for a, n, w in self._declared if a + n <= address or end <= a]
        self._declared.append((address, nbytes, written))
        kept = []
        for shadow in self._shadows:
            if _covers(shadow, address, end, shadow.granule):
                shadow.owner[shadow.offset(address) : -(-(end - shadow.address) // shadow.granule)] = written
            if _covers(shadow, address, end, shadow.granule) or not _meets(shadow, address, end):
                kept.append(shadow)
        self._shadows = kept

    def surely_written(self, address: int, nbytes: int) -> bool:
        """Whether all of some bytes was written before any launch, without a look at the shadows of their elements."""
        end = address + nbytes
        inside = [w for a, n, w in self._declared if a <= address and end <= a + n]
        unwritten = any(not w for a, n, w in self._declared if a < end and address < a + n)
        return inside == [True] if inside else self.assume_written and not unwritten

    def mark_written(self, segment: Segment) -> None:
        """Something other than a launch wrote all of a view."""
        if not segment.nbytes:
            return
        self._of(segment)[...] = 1

    def copied(self, out: Segment, source: Segment) -> None:
        """Something other than a launch copied one view to another, broadcast; what is unwritten stays so."""
        if self.surely_written(source.address, source.nbytes):
            self.mark_written(out)
        elif out.nbytes:
            written = np.broadcast_to(self._of(source).min(axis=-1) > 0, out.shape)
            self._of(out)[...] = written[..., np.newaxis]

    def unwritten(self, segment: Segment) -> tuple[int, ...] | None:
        """The index of the first element of a view that nobody wrote."""
        if not segment.nbytes or self.surely_written(segment.address, segment.nbytes):
            return None
        entries = self._of(segment)
        if entries.min():
            return None
        return tuple(map(int, np.argwhere(entries == 0)[0, :-1]))

    def _of(self, segment: Segment) -> NDArray[np.uint32]:
        """Who wrote the elements of a view, in its shape and one more axis for an element's granules."""
        shadow = self.shadow(segment.address, segment.nbytes, segment.itemsize)
        return _entries(shadow.owner, shadow, segment)

    def numbers(self, programs: int) -> int:
        """Numbers for the program instances of a launch; the first one is returned."""
        if programs > _LAST_PROGRAM - _FIRST_PROGRAM:
            raise UsageError(f"a checked launch numbers its program instances in 32 bits; {programs} are too many")
        if self._next + programs > _LAST_PROGRAM:
            self._forget_programs()
        first = self._next
        self._next += programs
        return first

    def shadow(self, address: int, nbytes: int, granule: int) -> Shadow:
        """The shadow that covers these bytes, by granules no larger than that.

        Shadows that overlap or are too coarse become one.
        """
        end = address + nbytes
        touching = [s for s in self._shadows if _meets(s, address, end)]
        if len(touching) == 1 and _covers(touching[0], address, end, granule):
            return touching[0]
        low = min([address, *(s.address for s in touching)])
        high = max([end, *(s.address + s.nbytes for s in touching)])
        size = min([granule, *(s.granule for s in touching)])
        while any((s.address - low) % size for s in touching) or (address - low) % size:
            size //= 2
        made = self._make(low, high - low, size)
        for old in touching:
            repeated = np.repeat(old.owner[:-_SLACK], old.granule // size)
            start = made.offset(old.address)
            made.owner[start : start + len(repeated)] = repeated
        self._shadows = [s for s in self._shadows if s not in touching] + [made]
        self._trim(made)
        return made

    def _make(self, address: int, nbytes: int, granule: int) -> Shadow:
        count = -(-nbytes // granule) + _SLACK
        known = [(a, n, w) for a, n, w in self._declared if a < address + nbytes and address < a + n]
        owner = np.full(count, self.assume_written, np.uint32)
        for a, n, w in known:
            start, stop = max(0, (a - address) // granule), -(-(a + n - address) // granule)
            owner[start:stop] = w
        return Shadow(address, nbytes, granule, owner)

    def _trim(self, latest: Shadow) -> None:
        """What is assumed to be written anyway need not be remembered for ever."""
        if self.assume_written:
            while sum(s.owner.nbytes for s in self._shadows) > _KEPT_BYTES and self._shadows[0] is not latest:
                self._shadows.pop(0)

    def _forget_programs(self) -> None:
        for shadow in self._shadows:
            np.minimum(shadow.owner, 1, out=shadow.owner)
            shadow.arrays.clear()
        self._next = _FIRST_PROGRAM


def _meets(shadow: Shadow, address: int, end: int) -> bool:
    return shadow.address < end and address < shadow.address + shadow.nbytes


def _covers(shadow: Shadow, address: int, end: int, granule: int) -> bool:
    inside = shadow.address <= address and end <= shadow.address + shadow.nbytes
    return inside and shadow.granule <= granule and (address - shadow.address) % shadow.granule == 0


def _entries(array: NDArray[_Entry], shadow: Shadow, segment: Segment) -> NDArray[_Entry]:
    """The entries of a view's elements, as an array of the view's shape and one more axis for an element's granules."""
    step = segment.itemsize // shadow.granule
    strides = [stride * step * array.itemsize for stride in segment.strides]
    start = array[shadow.offset(segment.address) :]
    return as_strided(start, (*segment.shape, step), (*strides, array.itemsize))


def valid_entries(segment: Segment, granule: int) -> NDArray[np.uint8] | None:
    """One byte per granule from the view's first element to its last, 1 where an element lies; None if all are 1."""
    if segment.dense or not segment.nbytes:
        return None
    local = Shadow(segment.address, segment.nbytes, granule, np.empty(0, np.uint32))
    valid = np.zeros(-(-segment.nbytes // granule) + _SLACK, np.uint8)
    _entries(valid, local, segment)[...] = 1
    return valid


def smallest_granule(segments: Iterable[Segment], segment: Segment) -> int:
    """The size of the smallest element among the views that share memory with one."""
    end = segment.address + segment.nbytes
    sizes = [s.itemsize for s in segments if s.address < end and segment.address < s.address + s.nbytes]
    return min([segment.itemsize, *sizes])


def overlapping(segments: Sequence[Segment | None], number: int) -> list[int]:
    """The arguments whose views share memory with that of argument `number`, itself included."""
    own = segments[number]
    if own is None or not own.nbytes:
        return [number]
    end = own.address + own.nbytes
    return [
        n
        for n, other in enumerate(segments)
        if n == number or (other is not None and other.address < end and own.address < other.address + other.nbytes)
    ]

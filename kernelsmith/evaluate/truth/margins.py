"""How near one candidate's answers came to what is allowed, per output, over all its runs.

`compare` tells the largest share of the bound of every answer that it holds against a truth; the largest of all is kept
here with the case it was seen at. The unit in the last place is looked up at that one element alone: near a truth of
zero every distance is many units, which says nothing.
"""

from __future__ import annotations

import math
import threading

import torch

from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evaluate.truth.oracle import Expected
from kernelsmith.evidence import Closeness, Rule


class Margins:
    """Of one candidate; used by the threads of its check."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._largest: dict[tuple[str, str, str], Closeness] = {}

    def closeness(self) -> tuple[Closeness, ...]:
        """One per output, dtype and rule, in the order in which they were first compared."""
        with self._lock:
            return tuple(self._largest.values())

    def unmeasured(self, expected: Expected, rule: Rule) -> None:
        """This output is held to a rule that knows no distance."""
        key = output, dtype, _ = expected.name, _name(expected.working.dtype), rule.value
        with self._lock:
            self._largest.setdefault(key, Closeness(output=output, dtype=dtype, rule=rule))

    def is_news(self, expected: Expected, share: float) -> bool:
        """Whether an answer came nearer to its limit than any before; asked without the lock, to save time."""
        before = self._largest.get(_key(expected))
        return before is None or before.share is None or share > before.share

    def measured(self, expected: Expected, share: float, index: tuple[int, ...], case: Case) -> None:
        """At `index` an answer was off by this share of its bound, more than anywhere else in it."""
        with self._lock:
            if not self.is_news(expected, share):
                return
            assert expected.bound is not None
            distance = share * float(expected.bound[index])
            key = output, dtype, rule = _key(expected)
            self._largest[key] = Closeness(
                output=output,
                dtype=dtype,
                rule=rule,
                share=share,
                ulp=distance / spacing(abs(expected.truth[index].item()), expected.working.dtype),
                where=case.where(),
            )


def times(share: float) -> str:
    """`5 times`: how far beyond, with as many digits as a person needs."""
    if share >= 1e6:
        return "more than a million times"
    return f"{share:,.0f} times" if share >= 10 else f"{share:.2g} times" if share >= 1.1 else f"{share:.4g} times"


def spacing(size: float, dtype: torch.dtype) -> float:
    """The unit in the last place of a dtype at a number of this size (of a complex one, that of its parts)."""
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    return smallest if not 0 < size < math.inf else max(smallest, info.eps * 2.0 ** (math.frexp(size)[1] - 1))


def _key(expected: Expected) -> tuple[str, str, str]:
    return expected.name, _name(expected.working.dtype), expected.rule


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

"""Inputs and truths, made once per run and shared by all candidates.

A candidate's process ends with its verdict and keeps nothing, so the same contents may meet many candidates without any
of them having seen them; the winner is checked again under a fresh seed. Least recently used entries go first when the
limit is reached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import torch

from kernelsmith.base import digest
from kernelsmith.evaluate.truth.inputs import CallInputs, Case, altered, materialise
from kernelsmith.evaluate.truth.oracle import Truth, truth
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.plan import ITEM_SIZES
from kernelsmith.sandbox.wire.tensors import torch_threads

LARGE_ELEMENTS = 1 << 20
DRAWS, DRAWS_LARGE = 8, 2
"""Perturbation draws per truth; above LARGE_ELEMENTS fewer, since many elements per draw tell as much."""
LIMIT_BYTES = 3 << 30


@dataclass(frozen=True)
class Known:
    """One set of inputs with what the operator must make of it."""

    inputs: CallInputs
    truth: Truth

    @property
    def returned(self) -> list[torch.Tensor]:
        """The reference's returned tensors in the working dtype."""
        return [e.working for e in self.truth.outputs if e.returned is not None]

    @property
    def input_bytes(self) -> int:
        """Bytes of the arguments' elements."""
        return sum(b.view.numel * ITEM_SIZES[b.view.dtype] for b in self.inputs.buffers())

    @property
    def output_bytes(self) -> int:
        """Bytes of everything the operator writes, mutated arguments included."""
        return sum(e.working.numel() * e.working.element_size() for e in self.truth.outputs)

    @property
    def nbytes(self) -> int:
        """Memory that keeping this costs."""
        kept = [t for e in self.truth.outputs for t in (e.truth, e.working, e.bound, *e.seen) if t is not None]
        return self.inputs.nbytes + sum(t.numel() * t.element_size() for t in kept)


class Truths:
    """A cache by (operator, case, seed); thread-safe, each truth computed once."""

    def __init__(self, threads: int, limit_bytes: int = LIMIT_BYTES) -> None:
        """`threads` are for large inputs; small ones are computed by the calling thread alone."""
        self._threads = threads
        self._limit = limit_bytes
        self._entries: OrderedDict[str, Known] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._computing: dict[str, threading.Lock] = {}

    def get(self, operator: LoadedOperator, case: Case, seed: int, *, altered_by: int | None = None) -> Known:
        """The contents drawn under `seed`, a few elements replaced by those of another seed where one is given.

        Raises OperatorError if the reference itself fails on the case.
        """
        key = digest(operator.info.digest, case.model_dump_json(), str(seed), str(altered_by))
        with self._lock:
            if (found := self._found(key)) is not None:
                return found
            own = self._computing.setdefault(key, threading.Lock())
        with own:
            with self._lock:
                if (found := self._found(key)) is not None:
                    return found
            try:
                known = self._compute(operator, case, seed, altered_by)
                with self._lock:
                    self._keep(key, known)
                return known
            finally:
                with self._lock:
                    self._computing.pop(key, None)

    def _found(self, key: str) -> Known | None:
        """The caller holds the lock, here and in `_keep`."""
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def _keep(self, key: str, known: Known) -> None:
        if (before := self._entries.pop(key, None)) is not None:
            self._bytes -= before.nbytes
        self._entries[key] = known
        self._bytes += known.nbytes
        while self._bytes > self._limit and len(self._entries) > 1:
            _, old = self._entries.popitem(last=False)
            self._bytes -= old.nbytes

    def _compute(self, operator: LoadedOperator, case: Case, seed: int, altered_by: int | None) -> Known:
        inputs = materialise(operator, case, seed)
        if altered_by is not None:
            inputs = altered(operator, inputs, materialise(operator, case, altered_by))
        large = inputs.nbytes > 4 * LARGE_ELEMENTS
        with torch_threads(self._threads if large else 1):
            return Known(inputs, truth(operator, inputs, draws=DRAWS_LARGE if large else DRAWS))

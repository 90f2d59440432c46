"""Refuses operators for which a check would prove nothing, because an answer that needs no work passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth.answers import is_floating, run, upcast
from kernelsmith.evaluate.truth.compare import compare
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.inputs import CallInputs, Case, materialise
from kernelsmith.evaluate.truth.oracle import Truth, truth
from kernelsmith.operators.declare import TensorSpec
from kernelsmith.operators.loaded import LoadedOperator


def refuse_trivial(op: LoadedOperator, seed: int) -> None:
    """Refuses an operator that needs no kernel: zeros, a constant or a copy of an input is accepted on a workload.

    Refuses a random reference without `check=` as well: no other generator's numbers could ever pass.
    """
    points = workload_cases(op)
    if op.check is None:
        _refuse_random(op, materialise(op, min(points, key=lambda c: _size(op, c)), seed))
    if op.policy is None and op.bound is None and op.check is None:
        points = [min(points, key=lambda c: _size(op, c))]
    for case in points:
        inputs, others = materialise(op, case, seed), materialise(op, case, seed + 1)
        elsewhere = run(op, others, others.tensors(), op.reference).returned
        if found := trivial_answer(op, inputs, truth(op, inputs, draws=1), elsewhere):
            raise OperatorError(
                f"{found} passes as the answer at {inputs.case.where().describe()}, so a check proves nothing",
                "tune for inputs whose answer depends on them: change values=, the workload, bound= or tolerance=",
                file=op.info.path,
            )


def _refuse_random(op: LoadedOperator, inputs: CallInputs) -> None:
    one, other = (run(op, inputs, inputs.tensors(), op.reference, state=state).all for state in (1, 2))
    if not all(torch.equal(_bytes(a), _bytes(b)) for a, b in zip(one, other, strict=True)):
        raise OperatorError(
            "the reference draws random numbers, so no kernel can give the same",
            "say what is owed instead: check=lambda output, expected, *inputs: ..., and properties=",
            file=op.info.path,
        )


def _bytes(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous().reshape(-1).view(torch.uint8)


def _size(op: LoadedOperator, case: Case) -> int:
    tensors = (n for n, s in op.arguments.items() if isinstance(s, TensorSpec))
    return sum(math.prod(op.shape(n, case.dims)) for n in tensors)


def trivial_answer(
    op: LoadedOperator, inputs: CallInputs, truth: Truth, elsewhere: Sequence[torch.Tensor]
) -> str | None:
    """Words for an answer that needs no work and would pass: zeros, a constant, an input as it is.

    The constants are taken from `elsewhere`, the answers to other contents: the mean of an output of one element is the
    right answer to its own.
    """
    before = [b.storage for b in inputs.buffers()]
    if op.mutates and compare(truth, _like(truth, lambda e: e.working), op, inputs, after=before) is None:
        return "leaving everything as it is"
    if op.mutates or not truth.outputs:
        return None
    if compare(truth, _like(truth, lambda e: torch.zeros_like(e.working)), op, inputs) is None:
        return "zero"
    if compare(truth, [_middle(answer) for answer in elsewhere], op, inputs) is None:
        return "a constant"
    for name, given in zip(inputs.buffer_names(), inputs.tensors(), strict=True):
        fitting = all(
            e.working.shape == given.shape and e.working.is_complex() == given.is_complex() for e in truth.outputs
        )
        if fitting and compare(truth, _like(truth, lambda e, g=given: g.to(e.working.dtype)), op, inputs) is None:
            return f"a copy of {name}"
    return None


def _like(truth: Truth, make: Any) -> list[torch.Tensor]:
    return [make(e).contiguous() for e in truth.outputs if e.returned is not None]


def _middle(answer: torch.Tensor) -> torch.Tensor:
    """The constant nearest to an answer: its mean, or its most frequent integer."""
    if not answer.numel():
        return torch.zeros_like(answer)
    if not is_floating(answer):
        return torch.full_like(answer, answer.reshape(-1).mode().values.item())
    wide = upcast(answer)
    mean = wide[wide.isfinite()].mean().nan_to_num()
    return mean.to(answer.dtype).expand(answer.shape).contiguous()

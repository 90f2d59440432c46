"""Refuses operators for which a check would prove nothing, because an answer that needs no work passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth.answers import is_floating, run, upcast
from kernelsmith.evaluate.truth.compare import compare
from kernelsmith.evaluate.truth.explore import cases, workload_cases
from kernelsmith.evaluate.truth.inputs import CallInputs, Case, materialise
from kernelsmith.evaluate.truth.oracle import Truth, truth
from kernelsmith.operators.declare import TensorSpec
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Level

OTHER_STATE = 2
"""Of torch's generator, unlike `answers.RANDOM_STATE`."""


def refuse_trivial(op: LoadedOperator, seed: int) -> None:
    """Refuses an operator that needs no kernel: zeros, a constant or a copy of an input is accepted on a workload.

    Refuses a random reference without `check=` as well, since no other generator's numbers could ever pass, and a
    `check=` that does not accept the reference itself.
    """
    points = workload_cases(op)
    if op.check is None:
        _refuse_random(op, materialise(op, min(points, key=lambda c: _size(op, c)), seed))
    if op.policy is None and op.bound is None and op.check is None:
        # how far an answer may be off follows from the dtypes: the smallest workload of each will do
        points.sort(key=lambda c: _size(op, c), reverse=True)
        points = list({tuple(c.dtypes.items()): c for c in points}.values())
    for case in points:
        inputs = materialise(op, case, seed)
        known = truth(op, inputs, draws=1)
        if op.check is not None:
            _refuse_strict(op, inputs, known)
        if (found := _needs_no_work(op, inputs, known, seed)) and not _told_apart(op, found, seed):
            raise OperatorError(
                f"{found} passes as the answer at {inputs.case.where().describe()}, so a check proves nothing",
                _advice(op, known),
                file=op.info.path,
            )


def _needs_no_work(op: LoadedOperator, inputs: CallInputs, known: Truth, seed: int) -> str | None:
    others = materialise(op, inputs.case, seed + 1)
    elsewhere = run(op, others, others.tensors(), op.reference).returned
    return trivial_answer(op, inputs, known, elsewhere) or _without_a_trace(op, known)


def _told_apart(op: LoadedOperator, answer: str, seed: int) -> bool:
    """Whether a check of a KernelBench problem draws other contents on which that answer fails: its own are often
    between 0 and 1, where a ReLU does nothing."""
    if op.problem is None:
        return False
    for case in cases(op, level=Level.QUICK, seed=seed, blocks=())[1:]:
        inputs = materialise(op, case, seed)
        if _needs_no_work(op, inputs, truth(op, inputs, draws=1), seed) != answer:
            return True
    return False


def _refuse_strict(op: LoadedOperator, inputs: CallInputs, known: Truth) -> None:
    """Refuses a `check=` that does not accept what the reference itself gives, under another random state."""
    storages = [b.storage.clone() for b in inputs.buffers()]
    tensors = [b.on(storage) for b, storage in zip(inputs.buffers(), storages, strict=True)]
    answer = run(op, inputs, tensors, op.reference, state=OTHER_STATE).returned
    if found := compare(known, answer, op, inputs, after=storages):
        raise OperatorError(
            f"check= refuses the reference's own answer at {inputs.case.where().describe()}: {found.message}",
            "it must accept every right answer; of a random reference, those under other seeds too",
            file=op.info.path,
        )


def _without_a_trace(op: LoadedOperator, truth: Truth) -> str | None:
    """Words for one output of several that may be zero though it is not, by the word of a policy or of `bound=`."""
    if op.check is not None or (op.policy is None and op.bound is None):
        return None
    for e in truth.outputs:
        if e.bound is not None and bool((e.truth.abs() <= e.bound).all()) and bool((e.truth != 0).any()):
            return f"zero for {e.name}"
    return None


def _advice(op: LoadedOperator, truth: Truth) -> str:
    """What to change; where a policy is to blame, with its numbers."""
    largest = max(
        (float(e.truth.abs().max()) for e in truth.outputs if e.bound is not None and e.truth.numel()), default=0
    )
    if op.check is not None:
        return "let check= look at the values too: it is all that tells a right answer from a wrong one"
    if op.policy is not None and 0 < largest < math.inf:
        return (
            f"the answers there are at most {largest:.3g}, and {op.policy.describe()}: "
            "name another policy or none, or tune for larger answers"
        )
    return "tune for inputs whose answer depends on them: change values=, low=, high=, the workload or bound="


def _refuse_random(op: LoadedOperator, inputs: CallInputs) -> None:
    one, other = (run(op, inputs, inputs.tensors(), op.reference, state=state).all for state in (1, OTHER_STATE))
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
    if op.mutates:
        zeros = _like(truth, lambda e: torch.zeros_like(e.working))
        return "zero" if compare(truth, zeros, op, inputs, after=_emptied(truth, inputs)) is None else None
    if not truth.outputs:
        return None
    if compare(truth, _like(truth, lambda e: torch.zeros_like(e.working)), op, inputs) is None:
        return "zero"
    if compare(truth, [_middle(answer) for answer in elsewhere], op, inputs) is None:
        return "a constant"
    for name, given in zip(inputs.buffer_names(), inputs.tensors(), strict=True):
        fitting = all(
            e.working.numel() == given.numel() and e.working.is_complex() == given.is_complex() for e in truth.outputs
        )
        if fitting and compare(truth, _like(truth, lambda e, g=given: _as(g, e.working)), op, inputs) is None:
            return f"a copy of {name}"
    return None


def _like(truth: Truth, make: Any) -> list[torch.Tensor]:
    return [make(e).contiguous() for e in truth.outputs if e.returned is not None]


def _as(given: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """An input's elements in the shape and dtype of an answer."""
    return given.reshape(like.shape).to(like.dtype)


def _emptied(truth: Truth, inputs: CallInputs) -> list[torch.Tensor]:
    """Storages whose mutated arguments are all zero."""
    storages = [b.storage.clone() for b in inputs.buffers()]
    for e in truth.outputs:
        if e.mutated is not None:
            inputs.buffers()[e.mutated].on(storages[e.mutated]).zero_()
    return storages


def _middle(answer: torch.Tensor) -> torch.Tensor:
    """The constant nearest to an answer: its mean, or its most frequent integer."""
    if not answer.numel():
        return torch.zeros_like(answer)
    if not is_floating(answer):
        return torch.full_like(answer, answer.reshape(-1).mode().values.item())
    wide = upcast(answer)
    mean = wide[wide.isfinite()].mean().nan_to_num()
    return mean.to(answer.dtype).expand(answer.shape).contiguous()

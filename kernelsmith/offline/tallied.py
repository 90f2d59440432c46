"""A launch plan whose kernels also count how often each of their blocks is entered, as the call's only output.

What a kernel does may depend on data, and on which of its programs one looks at; how often its loops really go round is
known once it has run. So its TTIR gets one more argument, the address of a row of counters, and an atomic addition at
the beginning of each block of its control flow: a plain text for the plain compiler, replayed as any plan is.

Invariant: text in, text out, line by line as MLIR prints it; blocks are numbered in the order in which they begin,
which is that of `blocks` of the parsed text. One in another form has another number of counters: `count` refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernelsmith.plan import Fill, Kernel, Launch, LaunchPlan, PointerArgument, ScratchBuffer, Step, View
from kernelsmith.triton_cpu.read.ir import Block, Module, Region

_CONTROL = frozenset({"scf.for", "scf.if", "scf.while"})
_ITEM = 8
_FUNCTION = re.compile(r"(tt\.func [^(]*\()(\)?)")
_CALL = re.compile(r"(tt\.call [^(]*\()(\)?)([^:]* : \()(\)?)")
_OPENS = re.compile(r"\bscf\.(?:for|if|while)\b|^\s*\} (?:else|do) \{$|\btt\.func\b")
_COUNTER = """%ks_at{n} = arith.constant {n} : i64
%ks_one{n} = arith.constant 1 : i64
%ks_all{n} = arith.constant true
%ks_in{n} = tt.addptr %ks_row, %ks_at{n} : !tt.ptr<i64>, i64
%ks_was{n} = tt.atomic_rmw add, relaxed, gpu, %ks_in{n}, %ks_one{n}, %ks_all{n} : (!tt.ptr<i64>, i64, i1) -> i64"""


@dataclass(frozen=True)
class Tallied:
    """`plan` returns one int64 tensor: for each launch in turn, the entries of each block of its kernel."""

    plan: LaunchPlan
    lengths: tuple[int, ...]
    """Counters of each launch."""


def blocks(module: Module) -> Iterator[Block]:
    """Of its control flow, those that do something, in textual order."""
    for function in module.functions.values():
        yield from _within(function.body)


def _within(region: Region) -> Iterator[Block]:
    for block in region.blocks:
        if block.ops:
            yield block
        for op in block.ops:
            if op.name in _CONTROL:
                for inner in op.regions:
                    yield from _within(inner)


def tallied(plan: LaunchPlan) -> Tallied:
    """Raises ValueError for a plan that is as large as one may be."""
    made = [_counting(kernel) for kernel in plan.kernels]
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    lengths = tuple(made[launch.kernel][1] for launch in launches)
    row, total, at = len(plan.buffers), sum(lengths), 0
    whole = View(buffer=row, dtype="int64", shape=(total,), strides=(1,))
    steps: list[Step] = [Fill(out=whole, value=0)]
    for step in plan.steps:
        if isinstance(step, Launch):
            length = made[step.kernel][1]
            own = View(buffer=row, dtype="int64", shape=(length,), strides=(1,), offset=at)
            step = step.model_copy(update={"arguments": (PointerArgument(view=own), *step.arguments)})
            at += length
        steps.append(step)
    counting = LaunchPlan.model_validate(
        {
            "buffers": (*plan.buffers, ScratchBuffer(nbytes=_ITEM * total)),
            "kernels": tuple(kernel for kernel, _ in made),
            "steps": tuple(steps),
            "outputs": (whole,),
        }
    )
    return Tallied(counting, lengths)


def _counting(kernel: Kernel) -> tuple[Kernel, int]:
    """The kernel with its counters, and how many they are."""
    text, number = instrumented(kernel.ttir)
    signature = ("*i64", *kernel.signature)
    return Kernel(name=kernel.name, ttir=text, signature=signature, options=kernel.options), number


def instrumented(ttir: str) -> tuple[str, int]:
    """The text with a counter at the beginning of each block, and how many those are."""
    lines: list[str] = []
    regions: list[bool] = []
    """Of those that are open here, whether they are control flow."""
    number, pending = 0, False
    for line in ttir.splitlines():
        begin = line.lstrip()
        label = begin.startswith("^")
        if pending and not label and not begin.startswith("}"):
            lines.append(_COUNTER.format(n=number))
            number += 1
        pending = False
        if begin.startswith("}") and regions:
            regions.pop()
        if line.rstrip().endswith("{"):
            regions.append(pending := _OPENS.search(line) is not None and not line.rstrip().endswith("({"))
        elif label:
            pending = bool(regions) and regions[-1]
        lines.append(_with_row(line))
    return "\n".join(lines) + "\n", number


def _with_row(line: str) -> str:
    """Functions take the row of counters, and calls hand it on."""
    line = _FUNCTION.sub(lambda m: f"{m[1]}%ks_row: !tt.ptr<i64>" + (m[2] or ", "), line, count=1)
    return _CALL.sub(
        lambda m: f"{m[1]}%ks_row" + (m[2] or ", ") + f"{m[3]}!tt.ptr<i64>" + (m[4] or ", "), line, count=1
    )

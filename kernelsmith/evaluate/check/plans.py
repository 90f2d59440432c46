"""What the launch plans of a candidate show about it: their size, the blocks its programs work on, whose memory it
returns, and in what two of them differ. `check` asks."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

from kernelsmith.evaluate.truth.compare import Finding, covered
from kernelsmith.evaluate.truth.oracle import Truth
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Buffer, InputBuffer, Launch, LaunchPlan, StateBuffer, View


def programs(plan: LaunchPlan) -> int:
    """Program instances of the plan's largest launch."""
    return max((math.prod(step.grid) for step in plan.steps if isinstance(step, Launch)), default=0)


_RANGE = re.compile(r"tt\.make_range \{end = (\d{1,7}) : i32, start = 0 : i32\}")


def blocks(plan: LaunchPlan) -> frozenset[int]:
    """Sizes of the blocks that its kernels work on, whatever name a constexpr, a config or a formula had for them."""
    return frozenset(int(size) for kernel in plan.kernels for size in _RANGE.findall(kernel.ttir))


def lent(plan: LaunchPlan, truth: Truth) -> Finding | None:
    """Whether an output lies in memory that is not its own, though the reference's has its own: a caller who writes to
    it, or calls again, would change something else. The number of outputs is right."""
    owed = [e for e in truth.outputs if e.returned is not None]
    if len(plan.outputs) != len(owed):
        owed = [e for e in owed if e.mutated is None]
    own = [(e, view) for e, view in zip(owed, plan.outputs, strict=True) if e.own]
    for e, view in own:
        buffer = plan.buffers[view.buffer]
        if isinstance(buffer, InputBuffer):
            return _lent(f"{e.name} lies in the memory of an argument", "a copy")
        if isinstance(buffer, StateBuffer) and buffer.content is None:
            kept = f"{e.name} lies in memory that is kept, so that the next call overwrites it"
            return _lent(kept, "memory allocated in the call")
    for (e, view), (other, its) in itertools.combinations(own, 2):
        if _overlap(view, its):
            return _lent(f"{e.name} and {other.name} share memory", "two tensors")
    return None


def _lent(what: str, instead: str) -> Finding:
    return Finding(Outcome.NOT_IN_PLAN, f"{what}; what the reference returns has memory of its own: return {instead}")


def _overlap(one: View, other: View) -> bool:
    nbytes = min(one.extent, other.extent)
    if one.buffer != other.buffer or not one.numel or not other.numel:
        return False
    return bool((covered(one, one.extent)[:nbytes] & covered(other, other.extent)[:nbytes]).any())


def settled(plans: Sequence[LaunchPlan]) -> LaunchPlan | None:
    """The one plan that these calls share, or None: the same text, but for what they find in memory that is kept.

    Where a call finds what another does not, nothing may depend on it: a replay finds poison there. By chance, on equal
    contents, a call may leave a workspace as it was.
    """
    if len({plan.canonical() for plan in plans}) == 1:
        return plans[-1]
    if len({len(plan.buffers) for plan in plans}) > 1:
        return None
    same = [len(set(versions)) == 1 for versions in zip(*(plan.buffers for plan in plans), strict=True)]
    opened = [plan.model_copy(update={"buffers": _open(plan, same)}) for plan in plans]
    return opened[-1] if len({plan.canonical() for plan in opened}) == 1 else None


def _open(plan: LaunchPlan, same: Sequence[bool]) -> tuple[Buffer, ...]:
    """Its buffers, with nothing said of what is found in kept ones that are not the same in every call."""
    return tuple(
        b.model_copy(update={"content": None}) if isinstance(b, StateBuffer) and not alike else b
        for b, alike in zip(plan.buffers, same, strict=True)
    )


def difference(one: LaunchPlan, other: LaunchPlan) -> str:
    """The first thing in which two plans differ, in a few words."""
    if len(one.steps) != len(other.steps):
        return f"{len(one.steps)} steps in one call, {len(other.steps)} in the next"
    for number, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        if a != b:
            other_kind = "another" if a.kind == b.kind else f"a {b.kind}"
            return f"step {number} is a {a.kind} in one call and {other_kind} in the next"
    if len(one.buffers) != len(other.buffers):
        return f"{len(one.buffers)} buffers in one call, {len(other.buffers)} in the next"
    return "the contents of its constants or of memory it keeps differ"

"""What the launch plans of a candidate show about it: their size, the blocks its programs work on, and in what two of
them differ. `check` asks."""

from __future__ import annotations

import math
import re

from kernelsmith.plan import Launch, LaunchPlan


def programs(plan: LaunchPlan) -> int:
    """Program instances of the plan's largest launch."""
    return max((math.prod(step.grid) for step in plan.steps if isinstance(step, Launch)), default=0)


_RANGE = re.compile(r"tt\.make_range \{end = (\d{1,7}) : i32, start = 0 : i32\}")


def blocks(plan: LaunchPlan) -> frozenset[int]:
    """Sizes of the blocks that its kernels work on, whatever name a constexpr, a config or a formula had for them."""
    return frozenset(int(size) for kernel in plan.kernels for size in _RANGE.findall(kernel.ttir))


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

"""Host functions with two faces, and honest ones that do much of what the others do.

All launch their kernels where a recorder watches, and the same kernels on the same grids where none does; what they
return then is another matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.evaluate.check.unwatched import movable
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.evaluate.sessions.session import ChildSession, LauncherSession
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Outcome
from kernelsmith.plan import (
    ConstantBuffer,
    Copy,
    InputBuffer,
    Kernel,
    Launch,
    LaunchPlan,
    PointerArgument,
    Relocation,
    ScratchBuffer,
    View,
)
from kernelsmith.sandbox.wire.messages import Broken

OPERATORS = '''
"""A scaled sum of two vectors, and the same in place."""
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 300)

@operator(x=tensor(N), y=tensor(N), {mutates} workloads=[workload(N=300)])
def blend(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return {result}
'''
NEW = OPERATORS.format(mutates="", result="x * 0.5 + y")
IN_PLACE = OPERATORS.format(mutates="mutates='x',", result="x.mul_(0.5).add_(y)")

QUIET = {"bench": False, "located": False}
"""What most verdicts here are asked for: no timing, and no search of where they hold."""
HEAD = """
import torch
import triton
import triton.language as tl
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as recorders

calls = 0
kept = {}


@triton.jit
def kernel(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z + offsets, tl.load(x + offsets, mask=mask) * 0.5 + tl.load(y + offsets, mask=mask), mask=mask)


def launched(x, y, z, n):
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, z, n, BLOCK=256)
    return z


def honest(x, y):
    return launched(x, y, torch.empty_like(x), x.numel())


"""

CHEATS = {
    "decoys, and torch beside them": """
def blend(x, y):
    if recorders():
        return honest(x, y)
    launched(x, y, torch.empty_like(x), 0)
    return x * 0.5 + y
""",
    "decoys, and NumPy": """
def blend(x, y):
    if recorders():
        return honest(x, y)
    launched(x, y, torch.empty_like(x), 0)
    return torch.from_numpy(x.numpy() * 0.5 + y.numpy())
""",
    "torch's answer under a decoy that changes nothing": """
def blend(x, y):
    if recorders():
        return honest(x, y)
    return launched(x, y, x * 0.5 + y, 0)
""",
    "a decoy that shows whether kernels run": """
def blend(x, y):
    if recorders():
        return honest(x, y)
    z = launched(x, y, torch.full_like(x, float("nan")), 1)
    return z if z[0].isnan() else x * 0.5 + y
""",
    "inputs copied in the plan, torch elsewhere": """
def blend(x, y):
    if recorders():
        return honest(x.clone(), y.clone())
    launched(x, y, torch.empty_like(x), 0)
    return x * 0.5 + y
""",
}
TWINS = {
    "looks at everything": """
def blend(x, y):
    global calls
    calls += 1
    kept[x.numel()] = recorders()
    z = honest(x, y)
    return z if z[0].item() < float("inf") else x
""",
    "inputs copied in the plan": "def blend(x, y):\n    return honest(x.clone(), y.clone())\n",
    "its answer begins as a copy": """
def blend(x, y):
    z = x.clone()
    return launched(z, y, z, z.numel())
""",
    "a pointer table": """
@triton.jit
def by_table(table, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    y = tl.load(table + 1).to(tl.pointer_type(tl.float32))
    z = tl.load(table + 2).to(tl.pointer_type(tl.float32))
    tl.store(z + offsets, tl.load(x + offsets, mask=mask) * 0.5 + tl.load(y + offsets, mask=mask), mask=mask)


def blend(x, y):
    z = torch.empty_like(x)
    table = torch.tensor([x.data_ptr(), y.data_ptr(), z.data_ptr()])
    by_table[(triton.cdiv(x.numel(), 256),)](table, x.numel(), BLOCK=256)
    return z
""",
}
"""Honest host functions that do what the cheats do, but for the last step."""


@pytest.fixture(scope="module", autouse=True)
def _no_screen() -> Iterator[None]:
    """It refuses the import that tells these whether they are recorded; there are other ways to tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernelsmith.evaluate.evaluate.screen", lambda source, *, entry: None)
        yield


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    opened = Room("cpu")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def judged(room: Room, tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("operators")
    for name, text in (("new", NEW), ("in_place", IN_PLACE)):
        (folder / f"{name}.py").write_text(text)

    def judge(body: str, operator: str = "new", **options: object) -> Evaluation:
        ref = OperatorRef(path=str(folder / f"{operator}.py"))
        job = Job(
            operator=ref, target="cpu", source=HEAD + body, seed=5, **({"bench": False, "located": False} | options)
        )
        return evaluate(job, room)

    return judge


@pytest.mark.parametrize("name", CHEATS)
def test_a_second_face_is_seen(judged, name: str) -> None:
    verdict = judged(CHEATS[name])
    assert verdict.outcome is Outcome.NOT_IN_PLAN, f"{verdict.outcome}: {verdict.message}"
    assert "when it is not recorded" in verdict.message


@pytest.mark.parametrize("name", TWINS)
def test_its_honest_twin_passes(judged, name: str) -> None:
    verdict = judged(TWINS[name])
    assert verdict.outcome is Outcome.PASSED, f"{verdict.outcome}: {verdict.message}"
    # an answer that had to be wrong, without its kernels, is no evidence of how near it comes
    assert verdict.evidence is not None
    assert verdict.evidence.closest is not None
    assert verdict.evidence.closest.share is not None
    assert verdict.evidence.closest.share <= 1


LATE = """
def blend(x, y):
    global calls
    calls += not recorders()
    if recorders() or calls < 90:
        return honest(x, y)
    launched(x, y, torch.empty_like(x), 0)
    return x * 0.5 + y
"""


def test_one_that_waits_until_its_calls_are_timed_is_seen(judged) -> None:
    assert judged(LATE).outcome is Outcome.PASSED
    verdict = judged(LATE, bench=True, bench_seconds=0.2, baselines=("eager",))
    assert verdict.outcome is Outcome.NOT_IN_PLAN, f"{verdict.outcome}: {verdict.message}"
    assert "when it is not recorded" in verdict.message


IN_PLACE_HONEST = "def blend(x, y):\n    return launched(x, y, x, x.numel())\n"
IN_PLACE_CHEAT = """
def blend(x, y):
    if recorders():
        return launched(x, y, x, x.numel())
    return launched(x, y, x.mul_(0.5).add_(y), 0)
"""


def test_so_it_is_where_the_operator_works_in_place(judged) -> None:
    verdict = judged(IN_PLACE_HONEST, "in_place")
    assert verdict.outcome is Outcome.PASSED, f"{verdict.outcome}: {verdict.message}"
    verdict = judged(IN_PLACE_CHEAT, "in_place")
    assert verdict.outcome is Outcome.NOT_IN_PLAN, f"{verdict.outcome}: {verdict.message}"
    assert "writes to an argument by itself" in verdict.message


def view(buffer: int) -> View:
    return View(buffer=buffer, dtype="float32", shape=(4,), strides=(1,))


def test_what_may_be_moved() -> None:
    """Of five inputs: one that only a kernel reads, one that is copied, one pointed to, one unused, one filled."""
    inputs = tuple(InputBuffer(index=i, nbytes=16) for i in range(4))
    table = ConstantBuffer(data="00" * 8, relocations=(Relocation(at=0, buffer=2),))
    pointers = tuple(PointerArgument(view=view(b)) for b in (0, 1, 2, 4))
    plan = LaunchPlan(
        buffers=(*inputs, ScratchBuffer(nbytes=16), table),
        kernels=(Kernel(name="k", ttir="", signature=("*fp32",) * 4),),
        steps=(Copy(out=view(4), source=view(1)), Launch(kernel=0, grid=(1, 1, 1), arguments=pointers)),
        outputs=(view(4),),
    )
    assert movable(plan) == {0}


def test_a_launcher_that_ran_kernels_is_not_believed_about_the_machine(judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are native code, so one may answer in the launcher's place, and what it says must not end the run."""
    forged = Broken(message="no memory left in this machine").model_dump_json().encode()

    def answer(self: LauncherSession, payload: bytes, *rest: Any) -> bytes:
        replays = isinstance(self, LauncherSession) and b'"kind":"replay"' in payload
        return forged if replays else real(self, payload, *rest)

    real = ChildSession._answer
    monkeypatch.setattr(ChildSession, "_answer", answer)
    verdict = judged(TWINS["looks at everything"])
    assert verdict.outcome is Outcome.CRASHED
    assert "claimed that the machine is broken: no memory left in this machine" in verdict.message

"""The launch plan as hostile plain data: what it accepts, what it refuses, when two are the same."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from pydantic import ValidationError

from kernelsmith.plan import (
    ConstantBuffer,
    Copy,
    Fill,
    InputBuffer,
    Kernel,
    Launch,
    LaunchPlan,
    PointerArgument,
    Relocation,
    ScalarArgument,
    ScratchBuffer,
    StateBuffer,
    View,
    Writer,
    read_plan,
    without_locations,
    writers,
)

TTIR = """#loc = loc("/tmp/a.py":5:0)
module {
  tt.func public @k(%x: !tt.ptr<f32> loc("x"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    tt.return loc(#loc1)
  } loc(#loc)
}
"""


def view(buffer: int, n: int = 8, offset: int = 0) -> View:
    return View(buffer=buffer, dtype="float32", shape=(n,), strides=(1,), offset=offset)


def kernel(ttir: str = TTIR, **options: Any) -> Kernel:
    return Kernel(name="k", ttir=ttir, signature=("*fp32", "i32"), options=options)


def launch(buffer: int) -> Launch:
    return Launch(kernel=0, grid=(1, 1, 1), arguments=(PointerArgument(view=view(buffer)), ScalarArgument(value=8)))


BUFFERS = (
    InputBuffer(index=0, nbytes=32),
    ScratchBuffer(nbytes=64),
    StateBuffer(index=0, nbytes=32, content="00"),
    ConstantBuffer(data="00" * 32),
)


def plan(*steps: Fill | Copy | Launch, outputs: tuple[View, ...] = (), **more: Any) -> LaunchPlan:
    return LaunchPlan(**{"buffers": BUFFERS, "kernels": (kernel(),), "steps": steps, "outputs": outputs} | more)


def test_a_plan_survives_json() -> None:
    p = plan(Fill(out=view(1), value="-inf"), Copy(out=view(1, 8, 8), source=view(0)), launch(1), outputs=(view(1),))
    assert read_plan(p.model_dump_json().encode()) == p
    assert p.launches == 1


def test_plans_that_differ_only_in_source_locations_are_the_same() -> None:
    moved = TTIR.replace("a.py", "b(1).py").replace(":5:0", ":99:3")
    assert plan(launch(1)).digest == plan(launch(1), kernels=(kernel(moved),)).digest
    other = TTIR.replace("tt.return", "tt.assert %n")
    assert plan(launch(1)).digest != plan(launch(1), kernels=(kernel(other),)).digest
    assert "loc" not in without_locations(TTIR)
    assert "@k(%x: !tt.ptr<f32>, %n: i32)" in without_locations(TTIR)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Fill(out=view(4), value=0), "view of buffer 4"),
        (Fill(out=view(0, 9), value=0), "36 bytes in a buffer of 32"),
        (Fill(out=view(0, 8, 1), value=0), "36 bytes in a buffer of 32"),
        (Copy(out=view(1), source=view(1, 17)), "68 bytes in a buffer of 64"),
        (Fill(out=View(buffer=1, dtype="float32", shape=(2**30,), strides=(0,)), value=1), "over each other"),
        (Launch(kernel=1, grid=(1, 1, 1), arguments=()), "kernel 1, of which there are 1"),
        (Launch(kernel=0, grid=(1, 1, 1), arguments=()), "0 arguments"),
        (launch(0).model_copy(update={"grid": (2**16, 2**16, 1)}), "grid"),
        (launch(0).model_copy(update={"grid": (-1, 1, 1)}), "grid"),
    ],
)
def test_a_step_out_of_bounds_is_refused(step: Fill | Copy | Launch, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        plan(step)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "object"},
        {"shape": (8, 1)},
        {"shape": (-8,)},
        {"strides": (-1,)},
        {"offset": -1},
        {"shape": (2**41,), "strides": (0,)},
        {"shape": (0, 2**50), "strides": (1, 1)},
        {"strides": (2**63,)},
        {"shape": (1,) * 17, "strides": (1,) * 17},
    ],
)
def test_a_view_out_of_bounds_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        View.model_validate({"buffer": 0, "dtype": "float32", "shape": (8,), "strides": (1,)} | change)


@pytest.mark.parametrize(
    ("buffers", "why"),
    [
        ((InputBuffer(index=0, nbytes=1), InputBuffer(index=0, nbytes=1)), "same index"),
        ((StateBuffer(index=1, nbytes=1, content=""),), "numbered from 0"),
        ((ConstantBuffer(data="00" * 8, relocations=(Relocation(at=1, buffer=0),)),), "outside its constant"),
        ((ConstantBuffer(data="00" * 8, relocations=(Relocation(at=0, buffer=1),)),), "not there"),
        ((ConstantBuffer(data="00" * 8, relocations=(Relocation(at=0, buffer=0, offset=9),)),), "past the end"),
        ((ScratchBuffer(nbytes=9 << 30), ScratchBuffer(nbytes=9 << 30)), "of scratch"),
    ],
)
def test_buffers_that_cannot_be_are_refused(buffers: tuple[Any, ...], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        plan(buffers=buffers, kernels=())


@pytest.mark.parametrize("data", ["0g", "0", "00 00 ", "00\n"])
def test_a_constant_is_as_long_as_its_text_says(data: str) -> None:
    with pytest.raises(ValidationError, match="pattern"):
        ConstantBuffer(data=data)


def test_options_that_bring_in_foreign_code_are_refused() -> None:
    kernel(num_warps=8)
    for name in ("ir_override", "extern_libs", "ptx_options"):
        with pytest.raises(ValidationError, match=name):
            kernel(**{name: 1})


def test_writers_of_outputs() -> None:
    p = plan(
        launch(1),
        Fill(out=view(1), value=0),
        Copy(out=view(1, 4, 12), source=view(0, 4)),
        outputs=(view(1), view(1, 4, 8), view(1, 4, 12), view(0), view(2), view(3)),
    )
    assert writers(p) == (
        Writer.FILL,
        Writer.LAUNCH,
        Writer.COPY,
        Writer.INPUT,
        Writer.STATE,
        Writer.CONSTANT,
    )
    assert writers(plan(outputs=(view(1),))) == (Writer.NOTHING,)


def test_a_launch_writes_through_a_table_of_pointers() -> None:
    table = ConstantBuffer(data="00" * 32, relocations=(Relocation(at=0, buffer=1),))
    p = plan(launch(3), outputs=(view(1),), buffers=(*BUFFERS[:3], table))
    assert writers(p) == (Writer.LAUNCH,)


def test_kept_memory_of_unknown_content_counts_as_never_written() -> None:
    buffers = (*BUFFERS[:2], StateBuffer(index=0, nbytes=32, content=None), BUFFERS[3])
    assert writers(plan(outputs=(view(2),))) == (Writer.STATE,)
    assert writers(plan(outputs=(view(2),), buffers=buffers)) == (Writer.NOTHING,)


def test_locations_end_with_their_own_parenthesis() -> None:
    text = 'a   loc(callsite("x(\\")"(#loc1) at (fused[#loc2, (#loc3)]))) b "loc(" c alloc(d) e loc(#loc4'
    assert without_locations(text) == 'a b "loc(" c alloc(d) e loc(#loc4'


@pytest.mark.parametrize(
    "piece", [" ", "loc(", '"', '\\"', 'loc(\\"', 'loc("', "loc(()", "loc()", "(", "\n", "#loc ", "#loc1 =\n", "\\"]
)
@pytest.mark.parametrize("before", ["", "loc(", 'loc("'])
def test_forged_text_is_read_in_linear_time(before: str, piece: str) -> None:
    """Four times the text takes some four times as long, where a quadratic pattern takes sixteen times."""

    def seconds(n: int) -> float:
        text = before + piece * (n // len(piece))
        took = []
        for _ in range(2):
            begin = time.process_time()
            without_locations(text)
            took.append(time.process_time() - begin)
        return min(took)

    assert seconds(400_000) < 9 * seconds(100_000) + 0.2


def test_damaged_plans_are_refused_or_valid() -> None:
    """Values of an honest plan's JSON replaced at random: read_plan raises ValueError or returns a closed plan."""
    rng = random.Random(7)
    honest = json.loads(plan(launch(1), Fill(out=view(1), value=0), outputs=(view(1),)).model_dump_json())
    poison = [-1, 0, 1, 2**31, 2**63, 2**64, "x", "", None, [], {}, 1.5, True, "nan", [2**40, 2**40]]
    refused = 0
    for _ in range(500):
        damaged = json.loads(json.dumps(honest))
        _replace_somewhere(damaged, rng, poison)
        try:
            p = read_plan(json.dumps(damaged).encode())
        except ValueError:
            refused += 1
            continue
        assert all(v.extent <= p.buffers[v.buffer].nbytes for v in p.views())
    assert refused > 250


def _replace_somewhere(node: Any, rng: random.Random, values: list[Any]) -> None:
    while True:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        child = node[key]
        if not isinstance(child, (dict, list)) or not child or rng.random() < 0.2:
            node[key] = rng.choice(values)
            return
        node = child


def test_workspace_is_what_a_call_allocates_and_does_not_return() -> None:
    assert plan(launch(0)).workspace_bytes(state=False) == 64
    assert plan(launch(0)).workspace_bytes(state=True) == 96, "what is kept between calls is taken as well"
    assert plan(launch(0), outputs=(view(1),)).workspace_bytes(state=False) == 0

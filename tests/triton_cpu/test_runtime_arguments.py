"""What a launch may be given: tensors of every shape and size, scalars at their limits, many arguments, large grids."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.run.launch import compile_ttir


@pytest.fixture(autouse=True)
def kept_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton-arguments"))


@triton.jit(do_not_specialize=["n", "first"])
def copy(x, out, n, first, B: tl.constexpr):
    """Elements `first` on, by 64-bit offsets."""
    index = tl.program_id(0).to(tl.int64) * B + first + tl.arange(0, B)
    tl.store(out + index, tl.load(x + index, mask=index < n) + 1, mask=index < n)


def test_empty_and_0_dimensional_tensors() -> None:
    x, out = torch.tensor(3.0), torch.tensor(0.0)
    copy[(1,)](x, out, 1, 0, B=32)
    assert out.item() == 4.0
    nothing = torch.empty(0)
    copy[(1,)](nothing, nothing, 0, 0, B=32)
    copy[(3,)](torch.empty(0, 7), torch.empty(7, 0), 0, 0, B=32)


def test_a_tensor_beyond_2_to_the_31_elements() -> None:
    """Pages appear where they are touched, so 3 GiB cost a few of them."""
    size = 3 << 30
    x, out = torch.empty(size, dtype=torch.int8), torch.empty(size, dtype=torch.int8)
    for first in (2**31 - 40, 2**31 + 2**29, size - 100):
        x[first : first + 100] = torch.arange(100, dtype=torch.int8)
        out[first : first + 100] = -1
        copy[(4,)](x, out, min(size, first + 90), first, B=32)
        expected = torch.arange(1, 101, dtype=torch.int8)
        if first + 90 < size:
            expected[90:] = -1
        assert torch.equal(out[first : first + 100], expected), first


@triton.jit(do_not_specialize=["rows", "columns", "x_row", "out_row", "out_column"])
def move(x, out, rows, columns, x_row, x_column, out_row, out_column, B: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * x_row + lane * x_column, mask=lane < columns)
    tl.store(out + row * out_row + lane * out_column, value, mask=lane < columns)


def test_views_with_any_strides_and_starts() -> None:
    storage = torch.arange(40.0 * 50).reshape(40, 50)
    views = [
        storage[3:33, 5:45],
        storage.T[5:45, 3:33].T,
        storage[5:35, 2:42:1],
        storage.T[10:40, :40],
        storage[:, ::2][:30],
    ]
    for view in views:
        rows, columns = view.shape
        for out in (torch.zeros(rows, columns), torch.zeros(columns, rows).T, torch.zeros(rows, 3 * columns)[:, 1::3]):
            move[(rows,)](view, out, rows, columns, *view.stride(), *out.stride(), B=64)
            assert torch.equal(out, view)
    # Rows of stride 0, then steps backwards from the last element.
    view, out = storage[7].expand(4, 50), torch.zeros(4, 50)
    move[(4,)](view, out, 4, 50, *view.stride(), *out.stride(), B=64)
    assert torch.equal(out, view)
    last, back = storage.view(-1)[-1:], torch.zeros(40, 50)
    move[(40,)](last, back, 40, 50, -50, -1, 50, 1, B=64)
    assert torch.equal(back, storage.flip(0, 1))


@triton.jit
def store_each(out, a, b: tl.int8, c: tl.int16, d, e, f, flag):
    tl.store(out, a.to(tl.int64))
    tl.store(out + 1, b.to(tl.int64))
    tl.store(out + 2, c.to(tl.int64))
    tl.store(out + 3, d.to(tl.int64))
    tl.store(out + 4, e.to(tl.int64))
    tl.store(out + 5, f.to(tl.int32, bitcast=True).to(tl.int64))
    tl.store(out + 6, flag.to(tl.int64))


@pytest.mark.parametrize(
    "numbers",
    [
        (-(2**31), -128, -(2**15), -(2**63), 2**63, -3.4028234663852886e38, True),
        (2**31 - 1, 127, 2**15 - 1, 2**63 - 1, 2**64 - 1, 1e-45, False),
    ],
    ids=["least", "greatest"],
)
def test_scalars_at_the_limits_of_their_types(numbers: tuple[float, ...]) -> None:
    out = torch.zeros(7, dtype=torch.int64)
    store_each[(1,)](out, *numbers)
    wrapped = [ctypes.c_int64(int(value)).value for value in numbers[:5]]
    bits = ctypes.c_int32.from_buffer(ctypes.c_float(numbers[5])).value
    assert out.tolist() == [*wrapped, bits, int(numbers[6])]


@triton.jit
def pick(x, flags, out, n, OP: tl.constexpr, B: tl.constexpr):
    index = tl.arange(0, B)
    value = tl.load(x + index, mask=index < n)
    if OP == "negative":
        value = -value
    elif OP == "square":
        value = value * value
    else:
        tl.static_assert(OP == "same", "no such operation")
    tl.store(out + index, tl.where(tl.load(flags + index, mask=index < n), value, 0), mask=index < n)


@pytest.mark.parametrize("operation", ["negative", "square", "same"])
def test_booleans_bytes_and_strings(operation: str) -> None:
    x = torch.tensor([-128, -1, 0, 1, 127], dtype=torch.int8)
    flags = torch.tensor([True, True, False, True, True])
    out = torch.full((5,), 99, dtype=torch.int8)
    pick[(1,)](x, flags, out, 5, OP=operation, B=8)
    expected = {"negative": -x, "square": x * x, "same": x}[operation]
    assert torch.equal(out, torch.where(flags, expected, 0))


def test_sixty_arguments(tmp_path: Path) -> None:
    names = [f"a{i}" for i in range(58)]
    lines = [f"    tl.store(out + {i}, {name} * 1.0)" for i, name in enumerate(names)]
    source = "\n".join(
        [
            "import triton",
            "import triton.language as tl",
            "@triton.jit",
            f"def many(out, x, {', '.join(names)}):",
            *lines,
        ]
    )
    path = tmp_path / "many.py"
    path.write_text(source)
    space: dict[str, object] = {}
    exec(compile(source, str(path), "exec"), space)
    out = torch.zeros(58)
    values = [float(i) if i % 2 else 3 * i + 2 for i in range(58)]
    space["many"][(1,)](out, out, *values)  # type: ignore[index]
    assert out.tolist() == values


@triton.jit
def where_am_i(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(out, x)
    tl.store(out + 1, y)
    tl.store(out + 2, z)
    tl.store(out + 3, tl.num_programs(0))
    tl.store(out + 4, tl.num_programs(1))
    tl.store(out + 5, tl.num_programs(2))


GRIDS = [(2**31 - 1, 1, 1), (1, 2**31 - 1, 1), (1, 1, 2**31 - 1), (65535, 32768, 4), (2**31 - 1, 2**20, 3)]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_program_instances_of_large_grids_know_where_they_are(grid: tuple[int, int, int]) -> None:
    """One by one: all of them would take too long."""
    out = torch.zeros(6, dtype=torch.int64)
    compiled = where_am_i.warmup(out, grid=(1,))
    one = compile_ttir(compiled.asm["ttir"]).bind_each(grid, [out.data_ptr()])
    width, height, depth = grid
    total = width * height * depth
    for number in (0, 1, 2**31 - 2, 2**31, 2**32 + 5, total // 2, total - 1):
        if number < total:
            one(number)
            place = [number % width, number // width % height, number // (width * height)]
            assert out.tolist() == [*place, *grid], number


@triton.jit
def count_once(hits):
    number = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    tl.atomic_add(hits + number, 1)


def test_a_3_dimensional_grid_runs_every_instance_once() -> None:
    hits = torch.zeros(7 * 5 * 3, dtype=torch.int32)
    count_once[(7, 5, 3)](hits)
    assert (hits == 1).all()
    for grid in ((0,), (4, 0), (4, 4, 0)):
        count_once[grid](hits)
    assert (hits == 1).all()

"""Cases and their inputs: one point of the input space, and the bytes it stands for.

A `Case` is plain data; `materialise` turns it into tensors that depend on nothing but the operator, the case and a
seed. Each tensor is a view inside a storage of its own with guard bytes on both sides, so that a write or a read beside
the view can be seen. Used by the judge only; candidates get copies of the storages and never a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernelsmith.base import Frozen, Scalar, digest
from kernelsmith.evaluate.truth.contents import BESIDE, TensorRequest, Values, fill
from kernelsmith.model import Workload
from kernelsmith.operators.declare import Layout, TensorSpec, Word
from kernelsmith.operators.loaded import LoadedOperator, number
from kernelsmith.plan import ITEM_SIZES, View
from kernelsmith.space import Where

GUARD_BYTES = 4096
"""Canary bytes before and after what a view reaches; as much as a block of 1024 floats can overrun."""
ALIGNMENT = 64
FAR_STRIDE = 1 << 30
"""Elements between far rows: the third one begins where int32 offsets have wrapped."""
FAR_LEAD = 1 << 31
"""Elements before the first far row, where an int32 offset that wrapped ends up: memory that exists."""
FAR_GAP = GUARD_BYTES
"""Elements between the rows of such a tensor in the judge's own storage."""
CANARY = (0xA5, 0xFF)
"""Repeated through guards and gaps: a NaN in float16, bfloat16 and float32, far out of range as an index."""


class Case(Frozen):
    """One call to try: sizes, dtypes, layouts, scalars and the kind of contents."""

    dims: dict[str, int] = {}
    dtypes: dict[str, str] = {}
    layouts: dict[str, str] = {}
    """By tensor argument; contiguous where not named."""
    scalars: dict[str, Scalar | None] = {}
    values: Values = Values.NORMAL
    focus: str | None = None
    """The tensor argument that gets these values while the others stay normal; None for all of them."""
    absent: tuple[str, ...] = ()
    """Optional arguments passed as None."""
    workload: Workload | None = None
    """The tuned workload this case is, if it is one."""

    def where(self, *, call: int = 0, replay: bool = False) -> Where:
        """How a verdict names this case."""
        values = f"{self.values} values" + (f" in {self.focus}" if self.focus else "")
        return Where(
            dims=self.dims,
            dtypes=self.dtypes,
            layouts=self.layouts,
            scalars=self.scalars,
            values=values,
            call=call,
            replay=replay,
        )


@dataclass(frozen=True)
class Spread:
    """How a call sees a storage whose rows lie far apart: only rows and guard bytes exist, and they are all that the
    judge keeps, one after the other."""

    view: View
    pieces: tuple[tuple[int, int], ...]
    """First byte, as the call sees it, and length of each stretch that exists; one after the other in our storage."""

    @property
    def nbytes(self) -> int:
        return sum(self.pieces[-1])


@dataclass(frozen=True, eq=False)
class TensorValue:
    """A tensor argument: `view` (of buffer number `view.buffer`) inside `storage`, 1-D uint8 with guard bytes."""

    storage: torch.Tensor
    view: View
    spread: Spread | None = None
    """For rows that lie further apart in the call than here."""

    @property
    def called(self) -> View:
        """The view as the call sees it."""
        return self.view if self.spread is None else self.spread.view

    def on(self, storage: torch.Tensor) -> torch.Tensor:
        """The argument over other bytes of the same size (1-D uint8): a copy of `storage`, or what a call left."""
        dtype = getattr(torch, self.view.dtype)
        usable = storage.numel() // dtype.itemsize * dtype.itemsize
        return torch.as_strided(
            storage[:usable].view(dtype),
            self.view.shape,
            self.view.strides,
            storage.storage_offset() + self.view.offset,
        )

    def fresh(self) -> torch.Tensor:
        """The argument on a copy of the storage."""
        return self.on(self.storage.clone())


@dataclass(frozen=True)
class ListValue:
    """A list argument."""

    items: tuple[TensorValue, ...]


@dataclass(frozen=True)
class ScalarValue:
    """A number, flag, string or None."""

    value: Scalar | None


Value = TensorValue | ListValue | ScalarValue


@dataclass(frozen=True, eq=False)
class CallInputs:
    """Arguments of one call, in order. The storages are never handed out, only copies: they stay as drawn."""

    case: Case
    names: tuple[str, ...]
    values: tuple[Value, ...]

    def arguments(self) -> list[Any]:
        """Fresh arguments for the reference: real torch tensors (as laid out in the case), lists, scalars, None."""
        return self.on([b.storage.clone() for b in self.buffers()])

    def tensors(self) -> list[torch.Tensor]:
        """Fresh tensors alone, in the order of their buffers."""
        return [b.fresh() for b in self.buffers()]

    def buffers(self) -> list[TensorValue]:
        """Every tensor, lists flattened; position i is input buffer i of a launch plan."""
        found: list[TensorValue] = []
        for value in self.values:
            found += [value] if isinstance(value, TensorValue) else value.items if isinstance(value, ListValue) else []
        return found

    def on(self, storages: list[torch.Tensor]) -> list[Any]:
        """The arguments over given storages, one per buffer."""
        tensors = iter(b.on(s) for b, s in zip(self.buffers(), storages, strict=True))
        return self.rebuilt(list(tensors))

    def rebuilt(self, tensors: list[torch.Tensor]) -> list[Any]:
        """The argument list with these tensors, one per buffer, in place of ours."""
        left = iter(tensors)
        out: list[Any] = []
        for value in self.values:
            if isinstance(value, TensorValue):
                out.append(next(left))
            elif isinstance(value, ListValue):
                out.append([next(left) for _ in value.items])
            else:
                out.append(value.value)
        return out

    def buffer_names(self) -> list[str]:
        """Argument name of each buffer."""
        names: list[str] = []
        for name, value in zip(self.names, self.values, strict=True):
            n = len(value.items) if isinstance(value, ListValue) else int(isinstance(value, TensorValue))
            names += [name] * n
        return names

    @property
    def nbytes(self) -> int:
        return sum(b.storage.numel() for b in self.buffers())


def materialise(op: LoadedOperator, case: Case, seed: int) -> CallInputs:
    """The inputs of `case`; equal for equal (operator, case, seed), unlike for another seed.

    Plan-relevant arguments depend on the case alone, so that two contents of a case have the same plan.
    """
    point = (op.info.digest, case.model_dump_json())
    generator = torch.Generator().manual_seed(int(digest(*point, str(seed)), 16) >> 1)
    steady = torch.Generator().manual_seed(int(digest(*point), 16) >> 1)
    if op.problem is not None:
        return _given(op, case, generator)
    values: list[Value] = []
    buffer = 0
    for name, spec in op.arguments.items():
        if not isinstance(spec, TensorSpec):
            values.append(ScalarValue(case.scalars.get(name)))
        elif name in case.absent:
            values.append(ScalarValue(None))
        else:
            count = 1 if spec.count is None else spec.count.value(case.dims)
            items = []
            for _ in range(count):
                source = steady if name in op.plan_relevant else generator
                items.append(_tensor(op, name, spec, case, source, buffer))
                buffer += 1
            values.append(items[0] if spec.count is None else ListValue(tuple(items)))
    return CallInputs(case, tuple(op.arguments), tuple(values))


def _tensor(
    op: LoadedOperator, name: str, spec: TensorSpec, case: Case, generator: torch.Generator, buffer: int
) -> TensorValue:
    kind = case.values if case.focus in (None, name) else BESIDE.get(case.values, Values.NORMAL)
    shape, dtype = op.shape(name, case.dims), case.dtypes[name]
    layout = Layout(case.layouts.get(name, Layout.CONTIGUOUS))
    drawn_shape = (1, *shape[1:]) if layout is Layout.EXPANDED and shape and shape[0] > 0 else shape
    request = TensorRequest(
        shape=drawn_shape,
        dtype=dtype,
        low=number(spec.low, case.dims),
        high=number(spec.high, case.dims),
        words=spec.words,
    )
    data = fill(request, kind, generator)
    return lay_out(data.expand(shape) if drawn_shape != shape else data, layout, buffer)


ALTERED = 1 / 32
"""Share of the elements that `altered` replaces."""


def changeable(op: LoadedOperator, name: str) -> bool:
    """Whether single elements of a tensor argument may be exchanged for those of another content of the same case."""
    spec = op.arguments.get(name)
    if not isinstance(spec, TensorSpec):
        return False
    return not spec.words & {Word.SORTED, Word.DISTINCT, Word.OFFSETS} and name not in op.plan_relevant


def altered(op: LoadedOperator, inputs: CallInputs, other: CallInputs) -> CallInputs:
    """`inputs` with a few elements of each tensor taken from `other`, another content of the same case.

    A cache that knows its input by address and a few elements takes it for the same. Tensors whose elements belong
    together (sorted, distinct, offsets) and those a plan may depend on stay as they are.
    """
    generator = torch.Generator().manual_seed(inputs.nbytes)

    def mixed(name: str, one: TensorValue, two: TensorValue) -> TensorValue:
        if not changeable(op, name) or not one.view.numel:
            return one
        taken = torch.rand(one.view.shape, generator=generator) < ALTERED
        taken.view(-1)[one.view.numel // 2] = True
        data = torch.where(taken, two.fresh(), one.fresh())
        return lay_out(data, Layout(inputs.case.layouts.get(name, Layout.CONTIGUOUS)), one.view.buffer)

    values: list[Value] = []
    for name, one, two in zip(inputs.names, inputs.values, other.values, strict=True):
        if isinstance(one, TensorValue) and isinstance(two, TensorValue):
            values.append(mixed(name, one, two))
        elif isinstance(one, ListValue) and isinstance(two, ListValue):
            values.append(ListValue(tuple(mixed(name, a, b) for a, b in zip(one.items, two.items, strict=True))))
        else:
            values.append(one)
    return CallInputs(inputs.case, inputs.names, tuple(values))


def strides_of(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Strides in elements of a tensor of `shape` in `layout`."""
    sizes = list(shape)
    order = list(range(len(shape)))
    if layout is Layout.TRANSPOSED and len(shape) >= 2:
        order[-1], order[-2] = order[-2], order[-1]
    step = 2 if layout is Layout.STEPPED and shape else 1
    strides = [0] * len(shape)
    for position, axis in enumerate(reversed(order)):
        strides[axis] = step
        extra = {Layout.ROWS_SLICED: 3, Layout.FAR: FAR_GAP}.get(layout, 0) if position == 0 else 0
        step *= max(1, sizes[axis] + extra)
    if layout is Layout.EXPANDED and shape:
        strides[0] = 0
    return tuple(strides)


def lay_out(data: torch.Tensor, layout: Layout, buffer: int) -> TensorValue:
    """`data` inside a guarded storage, in this layout."""
    shape = tuple(data.shape)
    strides = strides_of(shape, layout)
    item = data.element_size()
    offset = GUARD_BYTES // item + (1 if layout is Layout.OFFSET else 0)
    view = View(
        buffer=buffer, dtype=str(data.dtype).removeprefix("torch."), shape=shape, strides=strides, offset=offset
    )
    end = max(view.extent, offset * item)
    storage = canary(-(-end // ALIGNMENT) * ALIGNMENT + GUARD_BYTES)
    value = TensorValue(storage, view, _spread(view, storage.numel()) if layout is Layout.FAR else None)
    target = value.on(storage)
    if layout is Layout.EXPANDED and shape and shape[0] > 0:
        target[0].copy_(data[0])
    else:
        target.copy_(data)
    return value


def _spread(view: View, nbytes: int) -> Spread | None:
    """The rows of a storage moved FAR_STRIDE elements apart, behind room for the offsets that wrap below zero."""
    if len(view.shape) < 2 or not view.numel:
        return None
    item = ITEM_SIZES[view.dtype]
    pitch = view.shape[-1] + FAR_GAP
    rows = view.numel // view.shape[-1]
    lead = FAR_LEAD * item
    pieces = [(lead + row * FAR_STRIDE * item, pitch * item) for row in range(rows)]
    pieces[-1] = (pieces[-1][0], nbytes - (rows - 1) * pitch * item)
    strides = (*(stride // pitch * FAR_STRIDE for stride in view.strides[:-1]), view.strides[-1])
    far = view.model_copy(update={"strides": strides, "offset": view.offset + FAR_LEAD})
    return Spread(far, tuple(pieces))


def canary(nbytes: int) -> torch.Tensor:
    """Guard pattern over `nbytes` bytes (an even number)."""
    pair = torch.tensor(CANARY, dtype=torch.uint8)
    return pair.repeat(nbytes // 2)


def _given(op: LoadedOperator, case: Case, generator: torch.Generator) -> CallInputs:
    """Inputs of a KernelBench problem: its own `get_inputs` under our seed, floats varied as the case says."""
    assert op.problem is not None
    drawn = op.problem.inputs(int(torch.randint(2**31 - 1, (), generator=generator)))
    values: list[Value] = []
    buffer = 0
    for one in drawn:
        if isinstance(one, torch.Tensor):
            values.append(lay_out(vary(one, case.values), Layout.CONTIGUOUS, buffer))
            buffer += 1
        elif isinstance(one, list | tuple):
            items = [lay_out(vary(t, case.values), Layout.CONTIGUOUS, buffer + i) for i, t in enumerate(one)]
            buffer += len(items)
            values.append(ListValue(tuple(items)))
        else:
            values.append(ScalarValue(one))
    return CallInputs(case, tuple(op.problem.parameters), tuple(values))


def vary(given: torch.Tensor, kind: Values) -> torch.Tensor:
    """A KernelBench input moved within its dtype. Zeros stay zeros, so that triangles and masks stay what they are."""
    if not given.is_floating_point() or kind is Values.NORMAL:
        return given
    if kind is Values.NEGATIVE:
        return -given
    if kind is Values.LARGE:
        return given * 8
    if kind is Values.TINY:
        return given / 1024
    if kind is Values.SHIFTED:
        return torch.where(given == 0, given, given + 10)
    raise ValueError(f"given inputs have no variant {kind!r}")

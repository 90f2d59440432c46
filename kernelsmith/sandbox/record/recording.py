"""One call of a host function, written down as a launch plan while it runs.

Buffers are known by their storage object, which is kept alive until the recording ends: addresses are reused, objects
that live are not. What is neither an argument nor was allocated during the call existed before it and is state.
Invariant: a buffer gets its number when a step or an output first touches it, so that equal work gives equal plans. The
dispatch mode (`aten_table`) and the launch hook feed it; `recorder` starts and ends it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import ValidationError
from torch.utils._python_dispatch import _disable_current_modes

from kernelsmith.base import digest
from kernelsmith.plan import (
    MAX_CONSTANT_BYTES,
    Argument,
    Buffer,
    ConstantBuffer,
    Copy,
    Fill,
    InputBuffer,
    Kernel,
    Launch,
    LaunchPlan,
    PointerArgument,
    Relocation,
    ScratchBuffer,
    StateBuffer,
    Step,
    View,
)
from kernelsmith.sandbox.record.launch_hook import Grid
from kernelsmith.sandbox.record.lowering import Lowering
from kernelsmith.sandbox.wire.kernel_text import kernel_arguments, kernel_of
from kernelsmith.sandbox.wire.tensors import dtype_name, storage_bytes

_WORD = 8


def reason(error: ValueError) -> str:
    """What is wrong, in one line: of a validation error the first complaint."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg']}" if place else first["msg"]
    return str(error)


@dataclass(frozen=True)
class Refusal:
    """Something that the host function did and may not: what it `does`, with which `object`, where in its source."""

    does: str
    object: str
    line: int | None


class Recording:
    """What has happened so far in the call. `source_file` is where the candidate's code says it comes from."""

    def __init__(self, inputs: Sequence[torch.UntypedStorage], source_file: str) -> None:
        self.refusals: dict[Refusal, None] = {}
        self.state: list[bytes] = []
        """Contents of the state buffers before the call."""
        self.lowering = Lowering(source_file)
        self._source_file = source_file
        self._alive: dict[int, torch.UntypedStorage] = {}
        self._constants: dict[int, bytes] = {}
        self._scratch: set[int] = set()
        self._numbers: dict[int, int] = {}
        self._buffers: list[Buffer] = []
        self._kernels: dict[int, int] = {}
        self._kernel_list: list[Kernel] = []
        self._compiled: list[Any] = []
        self._steps: list[Step] = []
        self._stream: int | None = None
        for index, storage in enumerate(inputs):
            self._alive[storage._cdata] = storage
            self._number(storage, InputBuffer(index=index, nbytes=storage.nbytes()))

    # ---------------------------------------------------------------- what the dispatch mode reports

    def allocated(self, tensor: torch.Tensor) -> None:
        """A tensor with a storage of its own was made in the call."""
        storage = tensor.untyped_storage()
        self._alive[storage._cdata] = storage
        self._scratch.add(storage._cdata)

    def constant(self, tensor: torch.Tensor) -> None:
        """A tensor made from Python values; one over a known storage is nothing new."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._alive:
            return
        if storage.nbytes() > MAX_CONSTANT_BYTES:
            self.refuse(
                f"makes a tensor of {storage.nbytes()} bytes from Python or NumPy values "
                f"(at most {MAX_CONSTANT_BYTES} may be made so in a call)"
            )
        self._alive[storage._cdata] = storage
        self._constants[storage._cdata] = storage_bytes(storage)[:MAX_CONSTANT_BYTES]

    def fill(self, out: torch.Tensor, value: bool | int | float) -> None:
        """Every element of `out` becomes `value`."""
        if out.numel():
            self._steps.append(Fill(out=self.view(out), value=repr(value) if isinstance(value, float) else value))

    def copy(self, out: torch.Tensor, source: torch.Tensor) -> None:
        """`out` takes the elements of `source`; must be told before the copy happens."""
        if out.numel():
            source_view = self.view(source)
            self._steps.append(Copy(out=self.view(out), source=source_view))

    def refuse(self, does: str, object: str = "") -> None:
        """Note that the host function did what it may not; the call goes on, so that all of it is found at once."""
        self.refusals[Refusal(does, object, self.line())] = None

    def line(self) -> int | None:
        """Where in the candidate's source the innermost running call is."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename != self._source_file:
            if frame.f_back is None:
                return None
            frame = frame.f_back
        return frame.f_lineno

    # ---------------------------------------------------------------- what the launch hook reports

    def launch(self, compiled: Any, grid: Grid, stream: int, arguments: tuple[Any, ...]) -> None:
        """A kernel is about to run."""
        if self._stream is None:
            self._stream = stream
        elif stream != self._stream:
            self.refuse("launches on more than one stream")
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():  # type: ignore[no-untyped-call]
            self.refuse("captures a graph, whose later runs nobody sees")
        try:
            kernel = self._kernel(compiled)
            planned = kernel_arguments(compiled, arguments, self)
        except ValueError as error:
            self.refuse(f"launches a kernel that no plan can hold ({reason(error)})")
            return
        self.lowering.note(kernel, compiled, arguments)
        self._steps.append(Launch(kernel=kernel, grid=grid, arguments=planned))

    def pointer(self, tensor: torch.Tensor) -> Argument:
        """A tensor as an argument of a kernel."""
        return PointerArgument(view=self.view(tensor))

    def address(self, value: int) -> Argument | None:
        """An integer as an argument, if it is an address inside of a known storage."""
        found = self._find(value)
        if found is None:
            return None
        storage, offset = found
        rest = storage.nbytes() - offset
        view = View(buffer=self._reference(storage), dtype="uint8", shape=(rest,), strides=(1,), offset=offset)
        return PointerArgument(view=view)

    def _kernel(self, compiled: Any) -> int:
        known = self._kernels.get(id(compiled))
        if known is not None:
            return known
        kernel = kernel_of(compiled)
        number = self._kernel_list.index(kernel) if kernel in self._kernel_list else len(self._kernel_list)
        if number == len(self._kernel_list):
            self._kernel_list.append(kernel)
        self._compiled.append(compiled)  # alive, so that its id stays its own
        self._kernels[id(compiled)] = number
        return number

    # ---------------------------------------------------------------- buffers

    def view(self, tensor: torch.Tensor) -> View:
        """The tensor as part of a numbered buffer; raises ValueError for what has no plain memory."""
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
            raise ValueError(f"a {tensor.layout} tensor, or a lazily conjugated one, has no plain memory")
        return View(
            buffer=self._reference(tensor.untyped_storage()),
            dtype=dtype_name(tensor.dtype),
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            offset=int(tensor.storage_offset()),
        )

    def _reference(self, storage: torch.UntypedStorage) -> int:
        key = storage._cdata
        known = self._numbers.get(key)
        if known is not None:
            return known
        self._alive[key] = storage
        if key in self._scratch:
            return self._number(storage, ScratchBuffer(nbytes=storage.nbytes()))
        if key in self._constants:
            return self._number_constant(storage, self._constants[key])
        with _disable_current_modes():
            content = storage_bytes(storage)
        self.state.append(content)
        index = len(self.state) - 1
        return self._number(storage, StateBuffer(index=index, nbytes=len(content), content=digest(content)))

    def _number(self, storage: torch.UntypedStorage, buffer: Buffer) -> int:
        self._buffers.append(buffer)
        self._numbers[storage._cdata] = len(self._buffers) - 1
        return len(self._buffers) - 1

    def _number_constant(self, storage: torch.UntypedStorage, data: bytes) -> int:
        """Words that are addresses of known storages become relocations, and zeros in the data."""
        plain = bytearray(data)
        relocations = []
        for at in range(0, len(data) - len(data) % _WORD, _WORD):
            found = self._find(struct.unpack_from("=Q", data, at)[0])
            if found is not None:
                relocations.append(Relocation(at=at, buffer=self._reference(found[0]), offset=found[1]))
                plain[at : at + _WORD] = bytes(_WORD)
        return self._number(storage, ConstantBuffer(data=plain.hex(), relocations=tuple(relocations)))

    def _find(self, address: int) -> tuple[torch.UntypedStorage, int] | None:
        """The known storage that an address lies in, and how far."""
        for storage in self._alive.values():
            begin = storage.data_ptr()
            if begin and begin <= address < begin + storage.nbytes():
                return storage, address - begin
        return None

    # ---------------------------------------------------------------- the end

    def plan(self, outputs: Sequence[torch.Tensor]) -> LaunchPlan:
        """The plan of the call that returned `outputs`. Raises ValueError where it is out of bounds."""
        views = tuple(self.view(tensor) for tensor in outputs)
        self._forget_changed_state()
        return LaunchPlan(
            buffers=tuple(self._buffers),
            kernels=tuple(self._kernel_list),
            steps=tuple(self._steps),
            outputs=views,
        )

    def _forget_changed_state(self) -> None:
        """A workspace that is kept and never cleared begins every call as the last one left it. The plan says nothing
        of what is found there, so that a replay poisons it and no answer may depend on it."""
        for key, number in self._numbers.items():
            buffer = self._buffers[number]
            if isinstance(buffer, StateBuffer) and storage_bytes(self._alive[key]) != self.state[buffer.index]:
                self._buffers[number] = buffer.model_copy(update={"content": None})

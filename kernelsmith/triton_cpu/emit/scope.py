"""What the emitter knows at one point of a kernel: names in use, where each value lives, the lines written so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from kernelsmith.triton_cpu.emit.analysis import Uses
from kernelsmith.triton_cpu.emit.elementwise import Writer
from kernelsmith.triton_cpu.emit.names import array_element, identifier
from kernelsmith.triton_cpu.errors import UnsupportedConstruct
from kernelsmith.triton_cpu.isa import Isa
from kernelsmith.triton_cpu.read.ir import Function, Module, Op, Type, Value

if TYPE_CHECKING:
    from kernelsmith.triton_cpu.emit.checking import Checks
    from kernelsmith.triton_cpu.emit.memory import Snapshot

_STACK_BYTES = 192 << 10
_MAX_SCRATCH = 1 << 30
_MAX_SOURCE = 2 << 20
_MAX_NAMES = 1 << 16
_ALIGNMENT = 64


class Scope:
    """State of the emission.

    Attributes:
        scalars: C++ expressions of rank-0 values.
        arrays: names of row-major arrays that hold a tensor's elements.
        planned: arrays that a loop being emitted is about to fill.
        shifted: loop-carried tensors that are (initial value, scalar that was added to every element since).
        endings: arrays whose elements from an index on (a variable) all equal a scalar (another).
        snapshots: loads that may have to read what memory held before.
        in_place: matrix products that accumulate right in this array.
        waits: a program instance may wait for what another one does to memory.
        checks: set in a checked build; every access to the caller's memory is to be emitted by it.
        monitor: set as well where a kernel has assertions only.
        coarse: for some of those, a variable that says whether what they accumulate holds no value near a denormal.
        multiplies: there is a matrix product.
        streams: whether some store may pass the caches by.
    """

    def __init__(self, module: Module, isa: Isa) -> None:
        self.module = module
        self.isa = isa
        self.checks: Checks | None = None
        self.monitor: Checks | None = None
        self.uses = Uses(isa.lanes)
        self.writer = Writer()
        self.lines: list[str] = []
        self.depth = 1
        self.scalars: dict[Value, str] = {}
        self.arrays: dict[Value, str] = {}
        self.planned: dict[Value, str] = {}
        self.shifted: dict[Value, tuple[Value, str]] = {}
        self.endings: dict[str, tuple[str, str]] = {}
        self.snapshots: dict[Op, Snapshot] = {}
        self.in_place: dict[Op, str] = {}
        self.coarse: dict[Op, str] = {}
        self.multiplies = False
        self.streams = False
        self.calls: list[Function] = []
        self.waits = False
        self.stack_bytes = 0
        self.scratch_bytes = 0
        self._taken: dict[str, int] = {}
        self._names = 0
        self._source = 0

    @property
    def checked(self) -> bool:
        return self.checks is not None

    def fresh(self, name: str) -> str:
        """A C++ name nobody has used; never one of the runtime's own."""
        clean = identifier(name)
        number = self._taken.get(clean, 0)
        self._names += 1
        if self._names > _MAX_NAMES:
            self._too_long(f"{_MAX_NAMES} variables")
        self._taken[clean] = number + 1
        return f"{clean}_{number}"

    def write(self, *lines: str) -> None:
        self.lines.extend("  " * self.depth + line for line in lines)
        self._source += sum(2 * self.depth + len(line) + 1 for line in lines)
        if self._source > _MAX_SOURCE:
            self._too_long(f"{_MAX_SOURCE >> 20} MiB")

    def _too_long(self, limit: str) -> NoReturn:
        """Every call of a function that is not inlined becomes a copy of it, so short text can mean a lot of code."""
        reason = f"its C++ would have more than {limit}; unroll less, or call fewer functions"
        raise UnsupportedConstruct(self.module.kernel.name, reason)

    def open(self, header: str) -> None:
        self.write(header)
        self.depth += 1

    def close(self, trailer: str = "}") -> None:
        self.depth -= 1
        self.write(trailer)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """A C++ block of its own."""
        self.open("{")
        yield
        self.close()

    @contextmanager
    def region(self, header: str) -> Iterator[None]:
        """A C++ block for a region; arrays made inside are gone afterwards."""
        arrays, scalars, shifted = dict(self.arrays), dict(self.scalars), dict(self.shifted)
        self.open(header)
        yield
        self.close()
        self.arrays, self.scalars, self.shifted = arrays, scalars, shifted

    def array(self, kind: Type, name: str) -> str:
        """Declare an uninitialised array for a tensor; returns its name, a `char *` or decaying to one."""
        element = array_element(kind)
        variable = self.fresh(name)
        size = -(-kind.count * max(1, element.bytes) // _ALIGNMENT) * _ALIGNMENT
        if self.stack_bytes + size <= _STACK_BYTES:
            self.stack_bytes += size
            self.write(f"alignas({_ALIGNMENT}) char {variable}[{size}];")
        else:
            self.write(f"char *__restrict const {variable} = scratch + {self.scratch_bytes};")
            self.scratch_bytes += size
            if self.scratch_bytes > _MAX_SCRATCH:
                raise UnsupportedConstruct(str(kind), "the kernel's tensors need more than 1 GiB of scratch memory")
        return variable

    def definition(self, value: Value) -> Op | None:
        return self.uses.definitions.get(value)

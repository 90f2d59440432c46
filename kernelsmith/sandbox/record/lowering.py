"""The kernels of a recorded call once more, as the front end of another device makes them: nothing of it is run.

The TTIR that the CPU's front end made is not what others would make. Dots of float32 say `tf32` where a device allows
it and `ieee` where not; names of the mathematical libraries, types of fp8 that exist, the least size of a dot,
descriptors that stay where there is hardware for them, AMD's promise that a pointer spans less than 2 GiB, branches on
the target and the defaults of options that the launch did not name: all of it is decided when Python becomes TTIR. So
this is done in the candidate's own process, the only one that has its Python. Invariant: what is specialised is what
the recorded launch was specialised for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelsmith.compiled import Chip
from kernelsmith.outcome import Outcome
from kernelsmith.plan import ALLOWED_OPTIONS, Kernel
from kernelsmith.sandbox.record.faults import failed
from kernelsmith.sandbox.wire.kernel_text import device_signature, given_options
from kernelsmith.sandbox.wire.messages import Failed

_Path = tuple[int, ...]
_UNKNOWN_BYTES = 2**62
"""Of memory behind a plain address."""
_DECIDED = ("debug", "sanitize_overflow")
"""Options that may not travel in a plan, for they have made the TTIR what it is."""


@dataclass
class _Launched:
    """A kernel of the plan, and the most memory behind each of its pointers."""

    compiled: Any
    nbytes: dict[_Path, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Pointer:
    """What backends ask a tensor before they specialise a kernel for it."""

    aligned: bool
    nbytes: int

    def data_ptr(self) -> int:
        return 0 if self.aligned else 1

    def ptr_range(self) -> int:
        return self.nbytes


class Lowering:
    """The kernels of one call, by their numbers in the plan. `source_file` is the candidate's."""

    def __init__(self, source_file: str) -> None:
        self._file = source_file
        self._launched: dict[int, _Launched] = {}

    def note(self, number: int, compiled: Any, arguments: Sequence[Any]) -> None:
        """A launch of the kernel with that number."""
        launched = self._launched.setdefault(number, _Launched(compiled))
        for path, value in _pointers(list(compiled.src.signature.values()), arguments):
            nbytes = value.untyped_storage().nbytes() if isinstance(value, torch.Tensor) else _UNKNOWN_BYTES
            launched.nbytes[path] = max(nbytes, launched.nbytes.get(path, 0))

    def lower(self, chip: Chip) -> tuple[Kernel | Failed, ...]:
        """Every kernel of the plan, or what the chip's front end has against it."""
        return tuple(self._lower(self._launched[number], chip) for number in sorted(self._launched))

    def _lower(self, launched: _Launched, chip: Chip) -> Kernel | Failed:
        name = launched.compiled.name
        try:
            ttir, options = _front_end(launched, chip)
            signature = device_signature(launched.compiled.src.signature, ttir)
            return Kernel(name=name, ttir=ttir, signature=signature, options=options)
        except BaseException as error:  # noqa: BLE001 - the front end runs the candidate's Python
            why = failed(error, self._file, f"compiling {name} for {chip.label}")
            refused = why.outcome is Outcome.RUNTIME_ERROR  # such as an option that the chip does not have
            return why.model_copy(update={"outcome": Outcome.COMPILE_ERROR}) if refused else why


def _front_end(launched: _Launched, chip: Chip) -> tuple[str, dict[str, Any]]:
    """TTIR, and the options that the launch named."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget

    source, target = launched.compiled.src, GPUTarget(chip.backend, chip.arch, chip.warp_size)
    backend = _backend(target)
    metadata = launched.compiled.metadata
    options = {name: getattr(metadata, name) for name in given_options(metadata) & ALLOWED_OPTIONS}
    decided = {name: getattr(metadata, name) for name in _DECIDED}
    parsed = backend.parse_options({**options, **decided})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    attributes = {**source.attrs, **_attributes(backend, source.attrs, launched.nbytes)}
    again = type(source)(source.fn, source.signature, source.constants, attributes)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    with _active(target):
        implementation, modules = backend.get_codegen_implementation(parsed), backend.get_module_map()
        module = again.make_ir(target, parsed, implementation, modules, context)
        return str(stages["ttir"](module, {})), options


def _backend(target: Any) -> Any:
    """Triton's own for the target; Intel's is in no Triton that kernelsmith runs with."""
    from triton.compiler.compiler import make_backend

    if target.backend != "xpu":
        return make_backend(target)
    from kernelsmith.sandbox.record.intel_front import IntelFront

    return IntelFront(target)


def _attributes(backend: Any, known: Mapping[_Path, Any], nbytes: Mapping[_Path, int]) -> dict[_Path, Any]:
    """What the backend's own specialisation says of each pointer."""
    found = {}
    for path, size in nbytes.items():
        pointer = _Pointer(any(name == "tt.divisibility" for name, _ in known.get(path, ())), size)
        found[path] = backend.parse_attr(backend.get_tensor_specialization(pointer, align=True))
    return found


def _pointers(kinds: Sequence[Any], values: Sequence[Any], path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Pointers and their values, in nested tuples of parameters too."""
    for index, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        here = (*path, index)
        if isinstance(kind, (tuple, list)):
            yield from _pointers(kind, value, here)
        elif kind.startswith("*") and value is not None:
            yield here, value


@contextmanager
def _active(target: Any) -> Iterator[None]:
    """Kernels that ask which target they are compiled for are told this one."""
    from triton.runtime import driver

    active = driver.active
    own = active.get_current_target
    active.get_current_target = lambda: target
    try:
        yield
    finally:
        active.get_current_target = own

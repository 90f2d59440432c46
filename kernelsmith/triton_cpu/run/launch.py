"""Compiled kernels and their launch, without torch and without Triton.

Owns packing arguments into the 8-byte slots that generated code reads. Invariant: a kernel is decided by its TTIR
text and flags alone, so it may be cached by their hash. Called by the Triton driver and by the plan launcher:

    kernel = compile_ttir(text)
    kernel.launch((blocks, 1, 1), [x.data_ptr(), y.data_ptr(), n])
    again = kernel.bind((blocks, 1, 1), [x.data_ptr(), y.data_ptr(), n])
    again()
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelsmith.errors import InfrastructureError, UsageError
from kernelsmith.triton_cpu.emit.sites import Watch
from kernelsmith.triton_cpu.isa import Isa, host_isa
from kernelsmith.triton_cpu.read.formats import encode_f8
from kernelsmith.triton_cpu.read.ir import Element
from kernelsmith.triton_cpu.run import build, pool

Grid = tuple[int, int, int]
_FLOAT_CODES = {"f64": "<d", "f32": "<f4x", "f16": "<e6x"}
_ENTRY = "kernelsmith_run"


def pack_slot(kind: str, value: int | float) -> bytes:
    """One argument as 8 bytes. `kind` is its type (`*f32`, `i32`, `f32`, ...); integers wrap."""
    if kind == "bf16":
        return _bf16_bits(float(value)).to_bytes(8, "little")
    if kind.startswith("f8"):
        return encode_f8(float(value), Element(kind)).to_bytes(8, "little")
    code = _FLOAT_CODES.get(kind)
    if code is None:
        bits = int(kind[1:]) if kind[:1] == "i" and kind[1:].isdecimal() else 64
        return (int(value) & ((1 << bits) - 1)).to_bytes(8, "little")
    try:
        return struct.pack(code, value)
    except OverflowError:
        return struct.pack(code, math.copysign(math.inf, value))


def _bf16_bits(value: float) -> int:
    """Rounds to nearest, ties to even; a NaN stays one."""
    (bits,) = struct.unpack("<I", pack_slot("f32", value)[:4])
    if math.isnan(value):
        return int(bits >> 16) | 0x40
    return int(bits + 0x7FFF + (bits >> 16 & 1)) >> 16


@dataclass(frozen=True)
class Kernel:
    """A kernel mapped into this process.

    `arguments` are the types of its slots, in order (`*f32`, `i32`, ...); `library` keeps its code mapped, unless
    somebody else does; `waits`: its instances may wait for others; `watch`: it runs under a monitor only; `threads`: at
    most so many run it (0: as `pool.set_num_threads` says).
    """

    name: str
    arguments: tuple[str, ...]
    scratch_bytes: int
    entry: int
    library: ctypes.CDLL | None
    waits: bool = False
    watch: Watch | None = None
    threads: int = 0

    def launch(self, grid: Grid, slots: Sequence[int | float]) -> None:
        """Runs the grid to its end. A slot holds an address or a scalar; a grid with a zero runs nothing."""
        self.bind(grid, slots)()

    def cooperates(self, grid: Grid) -> bool:
        """Whether program instances may wait for each other, in a grid that has no more of them than the device says
        it runs at once: then they are right to, and cannot run one after the other."""
        return self.waits and math.prod(grid) <= pool.get_num_threads()

    def bind(self, grid: Grid, slots: Sequence[int | float], threads: int = 0) -> Callable[[], object]:
        """Packs everything once; each call of the result runs the grid. Memory behind addresses must outlive it.

        At most `threads` run it, where that is not 0, and all that a kernel waits for.
        """
        launch = pool.load_waiting() if self.waits else pool.load()
        kernel = replace(self, threads=threads) if threads else self
        return functools.partial(launch, kernel.request(grid, slots))

    def bind_each(self, grid: Grid, slots: Sequence[int | float]) -> Callable[[int], object] | None:
        """Like `bind`, but each call runs one program instance, given by its number (x runs fastest); None for
        instances that wait for each other."""
        if self.cooperates(grid):
            return None
        return functools.partial(pool.load_one(), self.request(grid, slots))

    def request(self, grid: Grid, slots: Sequence[int | float], *, context: int | None = None) -> bytes:
        """A launch as bytes. A kernel with a `watch` needs its monitor's `context` (see `monitor.run_checked`)."""
        if (context is None) != (self.watch is None):
            raise UsageError(f"kernel {self.name}: a checked build runs under its monitor, and no other build does")
        if len(slots) != len(self.arguments):
            raise UsageError(
                f"kernel {self.name} takes {len(self.arguments)} arguments ({', '.join(self.arguments)}), "
                f"got {len(slots)}"
            )
        packed = b"".join(map(pack_slot, self.arguments, slots)) + pack_slot("i64", context or 0)
        return pool.header(self.entry, grid, self.scratch_bytes, self.threads) + packed


@dataclass(frozen=True)
class Binary:
    """A compiled kernel as it is kept on disk."""

    name: str
    arguments: tuple[str, ...]
    scratch_bytes: int
    code: bytes
    waits: bool = False
    watch: Watch | None = None

    def load(self) -> Kernel:
        library = pool.load_library(self.code)
        entry = entry_of(library)
        return Kernel(self.name, self.arguments, self.scratch_bytes, entry, library, self.waits, self.watch)


def entry_of(library: ctypes.CDLL) -> int:
    """The address of a kernel's entry function."""
    address = ctypes.cast(library[_ENTRY], ctypes.c_void_p).value
    if address is None:
        raise UsageError(f"the library does not export {_ENTRY}")
    return address


def build_ttir(ttir: str, isa: Isa, *, fp_fusion: bool, checked: bool) -> Binary:
    """Generates and compiles a kernel. Raises UnsupportedConstruct (generation) and BuildError."""
    from kernelsmith.triton_cpu.emit import codegen

    kernel = codegen.generate(ttir, fp_fusion=fp_fusion, checked=checked, isa=isa)
    code = build.compile_shared(kernel.source, isa, fp_fusion=fp_fusion)
    arguments = tuple(map(str, kernel.arguments))
    return Binary(kernel.name, arguments, kernel.scratch_bytes, code, kernel.waits, kernel.watch)


@functools.cache
def source_hash() -> str:
    """Changes whenever any source of this package does."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted([*folder.rglob("*.py"), *folder.glob("cpp/*")]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compile_ttir(
    ttir: str, *, checked: bool = False, fp_fusion: bool = True, isa: Isa | None = None, cache_dir: Path | None = None
) -> Kernel:
    """The kernel for a TTIR module with one public function, ready to launch.

    Kept by content in this process, and in `cache_dir` if one is given: the caller vouches that only trusted programs
    write there. Raises UnsupportedConstruct, BuildError, CompilerMissingError, and InfrastructureError where a kernel
    cannot be kept or loaded.
    """
    return _compile_ttir(ttir, checked, fp_fusion, isa or host_isa(), cache_dir)


@functools.lru_cache(maxsize=1024)
def _compile_ttir(ttir: str, checked: bool, fp_fusion: bool, isa: Isa, cache_dir: Path | None) -> Kernel:
    if cache_dir is None:
        return build_ttir(ttir, isa, fp_fusion=fp_fusion, checked=checked).load()
    parts = [source_hash(), build.identification(isa), str(fp_fusion), str(checked), ttir]
    stem = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    try:
        binary = _read(cache_dir, stem)
        if binary is None:
            binary = build_ttir(ttir, isa, fp_fusion=fp_fusion, checked=checked)
            _write(cache_dir, stem, binary)
    except OSError as error:
        raise InfrastructureError(
            f"the folder for compiled kernels, {cache_dir}, cannot be used: {error}",
            hint="give a folder that can be written to and has space left",
        ) from error
    return binary.load()


def _read(folder: Path, stem: str) -> Binary | None:
    try:
        facts = json.loads((folder / f"{stem}.json").read_text())
        return Binary(
            name=facts["name"],
            arguments=tuple(facts["arguments"]),
            scratch_bytes=facts["scratch_bytes"],
            code=(folder / f"{stem}.so").read_bytes(),
            waits=facts["waits"],
            watch=None if facts["watch"] is None else Watch.from_json(facts["watch"]),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None  # absent, or cut short by a full disk: built again


def _write(folder: Path, stem: str, binary: Binary) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "name": binary.name,
        "arguments": binary.arguments,
        "scratch_bytes": binary.scratch_bytes,
        "waits": binary.waits,
        "watch": None if binary.watch is None else binary.watch.as_json(),
    }
    pool.write_atomically(folder / f"{stem}.so", binary.code)
    pool.write_atomically(folder / f"{stem}.json", json.dumps(facts).encode())

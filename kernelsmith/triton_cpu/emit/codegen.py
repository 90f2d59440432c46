"""The compiler's front: TTIR text in, one C++ translation unit out.

Reads text only, runs nothing, and needs neither Triton nor torch, so a process that must not run a candidate's code
can compile it. Called by the backend's last stage and by launchers that were handed TTIR as data.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources

from kernelsmith.triton_cpu.emit import mathlib
from kernelsmith.triton_cpu.emit.analysis import analyse
from kernelsmith.triton_cpu.emit.checking import Checks
from kernelsmith.triton_cpu.emit.control import emit_function
from kernelsmith.triton_cpu.emit.decompose import decompose
from kernelsmith.triton_cpu.emit.names import scalar_type
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.emit.simplify import simplify
from kernelsmith.triton_cpu.emit.sites import Sites, Watch
from kernelsmith.triton_cpu.errors import MISFITS, TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.isa import Isa
from kernelsmith.triton_cpu.read.ir import Element, Function, Module, Type, Value, walk
from kernelsmith.triton_cpu.read.parse import parse

_RECURSION = 20_000
_RUN = """
extern "C" void kernelsmith_run(long lo, long hi, const int *grid, const unsigned long long *args, char *scratch) {{
  const i64 width = grid[0], height = grid[1];
  for (i64 p = lo; p < hi; ++p) {{{stop}
    program((i32)(p % width), (i32)(p / width % height), (i32)(p / (width * height)),
            grid[0], grid[1], grid[2], args, scratch);
  }}
{drain}}}
"""
_NUMBER = "(u64)program_x + (u64)programs_x * ((u64)program_y + (u64)programs_y * (u64)program_z)"
_PROGRAM = (
    "static void program(const i32 program_x, const i32 program_y, const i32 program_z, const i32 programs_x, "
    "const i32 programs_y, const i32 programs_z, const unsigned long long *args, char *scratch) {"
)


@dataclass(frozen=True)
class ArgumentType:
    """One argument of the compiled function, in an 8-byte slot: pointer or scalar bits in the low bytes.

    `element` is TTIR's spelling (`i32`, `f32`, ...), for a pointer that of what it points to.
    """

    element: str
    pointer: bool

    def __str__(self) -> str:
        return f"*{self.element}" if self.pointer else self.element


@dataclass(frozen=True)
class GeneratedKernel:
    """A translation unit that exports `kernelsmith_run(lo, hi, grid, args, scratch)`.

    It runs the program instances lo..hi-1 of the grid, x fastest. `scratch_bytes` of memory, aligned to 64, belong to
    the calling thread. `waits` says that a program instance may wait for another one. With a `watch`, one more slot
    follows the arguments: the address of the monitor's context.
    """

    name: str
    source: str
    arguments: tuple[ArgumentType, ...]
    scratch_bytes: int
    waits: bool
    watch: Watch | None


def generate(ttir: str, *, fp_fusion: bool = True, checked: bool = False, isa: Isa) -> GeneratedKernel:
    """Compile the one public function of a TTIR module.

    `fp_fusion` is the C++ compiler's business (`-ffp-contract`) and changes no text. With `checked`, every access asks
    the monitor (see `checking`).

    Raises:
        TtirError: the text is malformed.
        UnsupportedConstruct: it uses something that this backend does not compile.
    """
    with _deep_recursion():
        try:
            return _generate(simplify(decompose(parse(ttir))), isa, checked)
        except RecursionError:
            raise UnsupportedConstruct("this kernel", "its expressions nest too deeply") from None
        except (TtirError, UnsupportedConstruct):
            raise
        except MISFITS as error:
            raise TtirError(
                f"the TTIR has an operation whose operands or attributes do not fit it: {error!r}"
            ) from error


def _generate(module: Module, isa: Isa, checked: bool) -> GeneratedKernel:
    scope = Scope(module, isa)
    for function in module.functions.values():
        analyse(function, scope.uses)
    kernel = module.kernel
    _monitor(scope, kernel, checked)
    for number, argument in enumerate(kernel.arguments):
        _unpack(scope, argument, number)
    emit_function(scope, kernel)
    head, stop, context = [_PROGRAM], "", f"((KsContext *)args[{len(kernel.arguments)}])"
    if scope.monitor is not None:
        head.append(f"  KsCheck check({context}, {_NUMBER});")
        head += [f"  {line}" for line in scope.monitor.views()]
        stop = f"\n    if ({context}->stop) return;"
    run = _RUN.format(stop=stop, drain="  ks_drain();\n" if scope.streams else "")
    body = "\n".join([*head, *scope.lines, "}"])
    headers = [
        "types.h",
        "prelude.h",
        "memory.h",
        "arithmetic.h",
        "atomics.h",
        *(["dot.h"] if scope.multiplies else []),
    ]
    headers += ["checked_abi.h", "checked.h"] if scope.monitor is not None else []
    parts = [_level(isa), *map(_text, headers), mathlib.source(scope.writer.functions, isa), body, run]
    arguments = tuple(ArgumentType(argument.type.element.value, argument.type.pointer) for argument in kernel.arguments)
    return GeneratedKernel(
        kernel.name, "\n".join(parts), arguments, scope.scratch_bytes, scope.waits, _watch(scope, kernel, checked)
    )


def _monitor(scope: Scope, kernel: Function, checked: bool) -> None:
    """Have accesses checked, or only assertions reported if there are any."""
    asserts = any(op.name == "tt.assert" for function in scope.module.functions.values() for op in walk(function.body))
    if not checked and not asserts:
        return
    sites = Sites()
    for function in scope.module.functions.values():
        own = function is kernel
        pointers = {value: number if own else None for number, value in enumerate(function.arguments)}
        sites.trace(function, {value: number for value, number in pointers.items() if value.type.pointer})
    scope.monitor = Checks(sites)
    scope.checks = scope.monitor if checked else None


def _watch(scope: Scope, kernel: Function, checked: bool) -> Watch | None:
    if scope.monitor is None:
        return None
    names = tuple(argument.name.lstrip("%") for argument in kernel.arguments)
    return Watch(checked, names, tuple(scope.monitor.sites.table), scope.monitor.accesses())


def _level(isa: Isa) -> str:
    lines = [f"#define KS_W {isa.lanes}", f"#define KS_SPLAT(s) {{{', '.join(['s'] * isa.lanes)}}}"]
    if isa.avx512:
        lines.append("#define KS_AVX512")
    if isa.bf16_dot:
        lines.append("#define KS_BF16_DOT")
    if isa.vnni:
        lines.append("#define KS_VNNI")
    if isa.f16c:
        lines.append("#define KS_F16C")
    return "\n".join(lines)


@functools.cache
def _text(name: str) -> str:
    return resources.files("kernelsmith.triton_cpu").joinpath("cpp", name).read_text(encoding="utf-8")


def _unpack(scope: Scope, argument: Value, number: int) -> None:
    """Declare a variable for a kernel argument."""
    kind: Type = argument.type
    if kind.shape:
        raise UnsupportedConstruct(str(kind), "a kernel's arguments are pointers and scalars")
    slot = f"args[{number}]"
    name = scope.fresh(argument.name)
    element = kind.element
    if kind.pointer:
        scope.write(f"char *const {name} = (char *){slot};")
    elif element.is_half:
        scope.write(f"const f32 {name} = ks_widen_{element.value}((u16){slot});")
    elif element.is_float and not element.is_f8:
        scope.write(f"const {element.value} {name} = ks_{element.value}_of((u{element.bits}){slot});")
    elif element is Element.I1:
        scope.write(f"const bool {name} = ({slot} & 1) != 0;")
    else:
        scope.write(f"const {scalar_type(kind)} {name} = ({scalar_type(kind)}){slot};")
    scope.scalars[argument] = name


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Expressions nest as deeply as the kernel wrote them; pure Python calls cost no C stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)

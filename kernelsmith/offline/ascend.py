"""Kernels for Ascend without one: Huawei's own lowering of TTIR (triton-adapter-opt of triton-ascend) and memory
planner (bishengir-compile of ascendnpu-ir), run as programs of the toolchain, and what can be read from what they
leave.

Without CANN the last step is missing, so there is never a binary: that bishengir-compile stops at its absence, having
written the planned module, is success. The options are those of triton-ascend 3.2.0's own backend. Invariant: called in
the compiler's confined process only.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from kernelsmith.compiled import Chip, Resources
from kernelsmith.errors import InfrastructureError
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Kernel, without_locations
from kernelsmith.sandbox.wire.messages import Failed
from kernelsmith.toolchains import Installed

PLACE_VARIABLE = "KERNELSMITH_ASCEND"
"""Names the toolchain's folder, in the environment of the compiler's process."""
SECONDS = 50.0
"""Of both programs together: less than `builds.SECONDS`, so that what runs out of them is told as such."""
_ADAPTER = "triton/backends/ascend/triton-adapter-opt"
_PLANNER = "ascendnpuir/bin/bishengir-compile"
_NEWER = re.compile(r"^Ascend(950|910_95|310)")
"""Chips of the planner's second program, whose name ends in -a5."""
_MISSING = "Cannot find hivmc"
_OVERFLOW = re.compile(r"(\w+) overflow, requires (\d+) bits while (\d+) bits available")
_MEMORIES = {"ub": "unified buffer", "cbuf": "L1 buffer", "l1": "L1 buffer", "cc": "L0C accumulators"}
_MEMORIES |= {"l0c": "L0C accumulators", "ca": "L0A", "cb": "L0B"}
_VECTOR = "fewer elements per program (a smaller BLOCK, or a loop over parts of the row)"
_OPERANDS = (
    "it holds the operands of tl.dot, twice where loads overlap: a smaller BLOCK_K first, then BLOCK_M and BLOCK_N, "
    "fewer products whose operands live at once, or multibuffer=False, which halves it and overlaps nothing"
)
_TOTALS = (
    "it holds what tl.dot adds up, in float32 whatever the operands are: a smaller output tile (BLOCK_M x BLOCK_N), "
    "and one accumulator at a time"
)
_ADVICE = {"ub": _VECTOR, **dict.fromkeys(("cbuf", "l1"), _OPERANDS), **dict.fromkeys(("cc", "l0c"), _TOTALS)}
_FLAGS = {
    "multibuffer": "enable-auto-multi-buffer",
    "enable_auto_bind_sub_block": "enable-auto-bind-sub-block",
    "enable_hivm_auto_cv_balance": "enable-hivm-auto-cv-balance",
    "sync_solver": "enable-hivm-graph-sync-solver",
    "unit_flag": "enable-hivm-unit-flag-sync",
    "set_workspace_multibuffer": "set-workspace-multibuffer",
    "tile_mix_vector_loop": "tile-mix-vector-loop",
    "tile_mix_cube_loop": "tile-mix-cube-loop",
}
"""Of bishengir-compile, by the launch option (`ASCEND_OPTIONS`) that triton-ascend 3.2.0 makes them of."""
_DEFAULTS: dict[str, bool | int | None] = {"multibuffer": True, "enable_auto_bind_sub_block": True}
_MEANT = {
    "AddPtrOp produced by unsupported operation": "lanes (tl.arange), or an address, that a loop carries from round to "
    "round: compute addresses from the loop's own counter, and begin what is carried with tl.zeros",
    "dyn_cast on a non-existent value": "perhaps a choice between two pointers: load from both and choose then",
    "Only reduce or reduce with index are supported": "it reduces more than a value and its index at once: use several",
}
"""What its authors' own words stand for: each was seen with such a kernel, and not without."""
_CONSTANT = re.compile(r"(%\w+) = (?:arith\.constant |llvm\.mlir\.constant\()(-?\d+) : i64")
_BUFFER = re.compile(
    r"hivm\.hir\.pointer_cast\(([^)]*)\)[^:]*: memref<((?:\d+x)*)([a-z]+\d+)[^>]*#hivm\.address_space<(\w+)>>"
)
_LOOP = re.compile(r"^(\s*)(?:%[\w:, ]+ = )?scf\.(?:for|while)\b")
_DIAGNOSTIC = re.compile(
    r"error: (.*)|(.*UNREACHABLE executed.*)|(.*Assertion .* failed.*)|(encountered .*)|(LLVM ERROR: .*)"
)


def told(toolchain: Installed) -> dict[str, str]:
    """What a compiler's process is told of it."""
    return {PLACE_VARIABLE: str(toolchain.folder)}


def compiled(kernel: Kernel, chip: Chip, scratch: Path) -> Resources | Failed:
    """What the memory planner gives a program, or why it cannot. Raises InfrastructureError where it is not there."""
    place = os.environ.get(PLACE_VARIABLE)
    if place is None:
        raise InfrastructureError(f"no compiler for {chip.label} here", "kernelsmith targets install TARGET")
    source, lowered, kept = scratch / "kernel.mlir", scratch / "lowered.mlir", scratch / "kept"
    source.write_text(without_locations(kernel.ttir), encoding="utf-8")
    newer = _NEWER.match(str(chip.arch)) is not None
    deadline = time.monotonic() + SECONDS
    try:
        words = [str(Path(place) / _ADAPTER), str(source), *_lowering(newer=newer), "-o", str(lowered)]
        code, said = _run(words, scratch, deadline)
        if code or not lowered.exists():
            return Failed(outcome=Outcome.COMPILE_ERROR, message=f"Ascend's front end refuses it: {_first(said)}")
        text = lowered.read_text(encoding="utf-8", errors="replace")
        lowered.write_text(re.sub(r', mix_mode\s*=\s*"[^"]*"', "", text), encoding="utf-8")
        planner = str(Path(place) / (_PLANNER + ("-a5" if newer else "")))
        words = [planner, str(lowered), f"--target={chip.arch}", f"--save-temps={kept}", "-o", str(scratch / "kernel")]
        _, said = _run([*words, *_planning(kernel, newer=newer)], scratch, deadline)
    except subprocess.TimeoutExpired as error:
        program = Path(str(error.cmd[0])).name
        message = f"{program} did not finish within {SECONDS:g} s: fewer elements per program, less unrolling"
        return Failed(outcome=Outcome.TIMEOUT, message=message)
    if overflow := _OVERFLOW.search(said):
        return Failed(outcome=Outcome.RESOURCE_LIMIT, message=_too_much(*overflow.groups()))
    planned = next(iter(kept.glob("*.hivm.opt.mlir")), None)
    if planned is None or _MISSING not in said:
        return Failed(outcome=Outcome.COMPILE_ERROR, message=f"Ascend's compiler refuses it: {_first(said)}")
    return read(planned.read_text(encoding="utf-8", errors="replace"), text)


def read(planned: str, lowered: str) -> Resources:
    """From the planned module (HIVM) and the lowered one."""
    used = local_memory(planned)
    cube = 'mix_mode = "aiv"' not in lowered
    return Resources(
        warps=1,
        threads=1,
        unified_buffer_bytes=used.get("ub", 0),
        l1_bytes=used.get("cbuf", 0),
        l0c_bytes=used.get("cc", 0),
        scalar_loops=scalar_loops(planned),
        barriers=planned.count("hivm.hir.pipe_barrier"),
        matrix_instructions={"cube": len(re.findall(r"call @mma\w*", planned))} if cube else {},
    )


def local_memory(planned: str) -> dict[str, int]:
    """The highest byte that is used of each on-chip memory; a lower bound, since buffers of dynamic shape have none."""
    constants = {name: int(value) for name, value in _CONSTANT.findall(planned)}
    top: dict[str, int] = {}
    for addresses, shape, element, space in _BUFFER.findall(planned):
        count = 1
        for extent in shape.split("x")[:-1]:
            count *= int(extent)
        nbytes = (count * int(re.sub(r"\D", "", element)) + 7) // 8
        for address in addresses.split(","):  # several where it is buffered more than once
            if (base := constants.get(address.strip())) is not None:
                top[space] = max(top.get(space, 0), base + nbytes)
    return top


def scalar_loops(planned: str) -> int:
    """Innermost loops that read or write memory one element at a time."""
    found, open_at = 0, None
    for line in planned.splitlines():
        if begins := _LOOP.match(line):
            open_at = len(begins[1])
        elif open_at is not None and line.startswith(" " * open_at + "}"):
            open_at = None
        elif open_at is not None and ("memref.load" in line or "memref.store" in line):
            found, open_at = found + 1, None
    return found


def _lowering(*, newer: bool) -> list[str]:
    chip = f"compile-on-910-95={newer} force-simt-template=False"
    return [
        f"--discrete-mask-access-conversion={chip}",
        "--triton-to-annotation",
        f"--triton-to-unstructure={chip}",
        *("--triton-to-hivm", "--triton-to-hfusion", "--triton-to-llvm", "--bubble-up-operation"),
        "--triton-to-linalg=global-kernel=false named-ops=True enable-nd2nz-on-vector=False "
        f"enable-select-analysis=True compile-on-910-95={newer}",
    ]


def _planning(kernel: Kernel, *, newer: bool) -> list[str]:
    given = _DEFAULTS | {name: value for name, value in kernel.options.items() if name in _FLAGS}
    options = [f"--{_FLAGS[name]}={str(value).lower()}" for name, value in given.items() if value is not None]
    options += ["--enable-hfusion-compile=true", "--enable-triton-kernel-compile=true"]
    return options if newer else [*options, "--enable-hivm-compile=true"]


def _run(words: list[str], scratch: Path, deadline: float) -> tuple[int, str]:
    """The program's exit status and what it says. Raises TimeoutExpired."""
    left = max(0.0, deadline - time.monotonic())
    try:
        done = subprocess.run(
            words, capture_output=True, cwd=scratch, timeout=left, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        message = f"{Path(words[0]).name} cannot be run: {error}"
        raise InfrastructureError(message, "install the toolchain again") from error
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def _first(said: str) -> str:
    """The first thing that is wrong, without the stack of the compiler's own crash."""
    for line in said.splitlines():
        if (found := _DIAGNOSTIC.search(line)) and _MISSING not in line:
            told = str(next(text for text in found.groups() if text)).strip()[:400]
            return "; ".join([told, *(meaning for words, meaning in _MEANT.items() if words in told)])
    words = [line.strip() for line in said.splitlines() if line.strip() and "hivmc" not in line]
    return "it does not say why" + (f" ({words[0][:200]})" if words else "")


def _too_much(memory: str, needs: str, there: str) -> str:
    name = _MEMORIES.get(memory.lower(), memory)
    advice = _ADVICE.get(memory.lower(), "smaller blocks")
    least, most = int(needs) // 8, int(there) // 8
    return f"{memory} overflow: a program needs {least:,} bytes of {name}, there are {most:,}: {advice}"

"""What ptxas and nvdisasm, which come with Triton's wheel, tell of a kernel for NVIDIA.

Called by `compiler` in a confined child. Invariant: reads text that those programs wrote; a form that is not known is
left out, never guessed.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from kernelsmith.compiled import Resources
from kernelsmith.errors import InfrastructureError

_REGISTERS = re.compile(r"Used (\d+) registers")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9.]*)", re.MULTILINE)
_MATRIX = re.compile(r"(?:[A-Z]?[HIDQOB]G?MMA|UTC\w*MMA)\b")
"""HMMA, IMMA, DMMA, QMMA of a warp, HGMMA and IGMMA of a warp group (Hopper), UTC*MMA of tensor memory (Blackwell)."""
_WIDTH = re.compile(r"\.(?:[US]?(8|16)|(32|64|128|256))(?=\.|$)")
_WORD_BITS = 32
"""Of a load or store that names no width."""
NVDISASM_SECONDS = 30.0


def keep_log() -> None:
    """From now on Triton prints what ptxas says of each kernel."""
    from triton import knobs

    knobs.nvidia.dump_ptxas_log = True


def read(compiled: Any, printed: str, folder: Path) -> Resources:
    """What `compiled` takes; `printed` is what Triton wrote while it was compiled."""
    counts = Counter(_INSTRUCTION.findall(_disassembly(compiled.asm["cubin"], folder)))
    registers, frame = _REGISTERS.search(printed), _FRAME.search(printed)
    data = compiled.metadata
    return Resources(
        warps=data.num_warps,
        threads=data.num_warps * data.warp_size,
        registers=int(registers[1]) if registers else None,
        spill_bytes=int(frame[2]) if frame else None,
        stack_bytes=int(frame[1]) if frame else None,
        shared_bytes=data.shared,
        tensor_memory_columns=getattr(data, "tmem_size", None) or None,
        matrix_instructions=matrix_instructions(counts),
        loads=widths(counts, ("LDG", "LDGSTS")),
        stores=widths(counts, ("STG",)),
    )


def matrix_instructions(counts: Counter[str]) -> dict[str, int]:
    """By name without modifiers."""
    found: Counter[str] = Counter()
    for name, count in counts.items():
        if _MATRIX.match(name):
            found[name.partition(".")[0]] += count
    return dict(sorted(found.items()))


def widths(counts: Counter[str], names: tuple[str, ...]) -> dict[int, int]:
    """Instructions of these names, by bytes per thread."""
    found: Counter[int] = Counter()
    for name, count in counts.items():
        if name.partition(".")[0] in names:
            width = _WIDTH.search(name)
            found[(int(width[1] or width[2]) if width else _WORD_BITS) // 8] += count
    return dict(sorted(found.items()))


def _disassembly(cubin: bytes, folder: Path) -> str:
    from triton import knobs

    file = folder / "kernel.cubin"
    file.write_bytes(cubin)
    command = [knobs.nvidia.nvdisasm.path, str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=NVDISASM_SECONDS)
    except subprocess.TimeoutExpired:
        return ""  # of a kernel so large, the instructions stay unknown
    except (OSError, subprocess.CalledProcessError) as error:
        raise InfrastructureError(f"nvdisasm of Triton's wheel cannot work here: {error}") from error
    return done.stdout

"""What the assembly of a kernel for AMD tells: LLVM writes its resources into the metadata at its end.

Called by `compiler` in a confined child. Keys: LLVM's AMDGPU usage guide, "Code Object V5 Metadata". Invariant: as in
`nvidia`, what is not there is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from kernelsmith.compiled import Resources

_INSTRUCTION = re.compile(r"^\s+((?:v_s?mfma|v_s?wmma|buffer_|global_|flat_)\w*)", re.MULTILINE)
_MATRIX = ("v_mfma", "v_smfma", "v_wmma", "v_swmma")
_WIDTH = re.compile(r"_(?:dword(?:x([234]))?|[busi](8|16|32|64|96|128)|(u?byte|sbyte)|([us]?short))(?=_|$)")
_WORD_BYTES = 4


def read(compiled: Any) -> Resources:
    """What `compiled` takes."""
    text = compiled.asm["amdgcn"]
    counts = Counter(_INSTRUCTION.findall(text))
    data = compiled.metadata
    spilled = _metadata(text, "vgpr_spill_count")
    return Resources(
        warps=data.num_warps,
        threads=data.num_warps * data.warp_size,
        registers=_metadata(text, "vgpr_count"),
        scalar_registers=_metadata(text, "sgpr_count"),
        spill_bytes=None if spilled is None else _WORD_BYTES * spilled,
        stack_bytes=_metadata(text, "private_segment_fixed_size"),
        shared_bytes=data.shared,
        matrix_instructions={name: n for name, n in sorted(counts.items()) if name.startswith(_MATRIX)},
        loads=widths(counts, "load"),
        stores=widths(counts, "store"),
    )


def widths(counts: Counter[str], verb: str) -> dict[int, int]:
    """Loads or stores, by bytes per lane."""
    found: Counter[int] = Counter()
    for name, count in counts.items():
        if f"_{verb}_" in name and (nbytes := _nbytes(name)):
            found[nbytes] += count
    return dict(sorted(found.items()))


def _nbytes(name: str) -> int | None:
    width = _WIDTH.search(name)
    if width is None:
        return None
    words, bits, byte, short = width.groups()
    if bits:
        return int(bits) // 8
    return 1 if byte else 2 if short else _WORD_BYTES * int(words or 1)


def _metadata(text: str, key: str) -> int | None:
    found = re.search(rf"^\s+(?:- )?\.{key}:\s+(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else None

"""What a plan's TTIR may consist of: an allow-list of dialects, types, external functions and inline assembly.

On an accelerator the text goes through Triton's whole compiler, which accepts far more than kernels are made of: a
global of the LLVM dialect, say, becomes memory that outlives launches. Invariant: the check is linear in the text, and
what it does not know it refuses, by name. Plans are checked when they are read; the CPU's own reader is stricter still.
"""

from __future__ import annotations

import re
from functools import lru_cache

DIALECTS = frozenset({"tt", "arith", "math", "scf", "cf", "ub"})
OTHER_WORDS = frozenset({"gpu.barrier", "ttg.barrier", "nvvm.barrier0", "llvm.intr.assume", "hivm.multi_buffer"})
"""What `tl.debug_barrier` and `tl.assume` become, by version of Triton, and what Ascend's `tl.compile_hint` may say."""
EXTERNAL = re.compile(r"__nv_\w+|__ocml_\w+|__hmf_\w+", re.ASCII)
"""Names of the devices' mathematical libraries: CUDA, ROCm, Ascend."""
_ASSEMBLY = re.compile(r"\.(global|shared|const|local|param|extern|visible|func|entry|version|target)\b|\bcall\b")
"""What elementwise assembly has no use for: memory of its own, functions, other memory than its operands."""
_WORDS = re.compile(
    r"""//[^\n]*
  | (?P<string>(?<!@)"(?:[^"\\\n]|\\.)*+"?)
  | [%@#^][\w$.\-]*+(?:(?<=@)"(?:[^"\\\n]|\\.)*+"?)?
  | (?P<type>![A-Za-z_][\w$]*+)
  | (?P<number>-?\d[\w.]*+)
  | (?P<word>[A-Za-z_][\w$]*+(?:\.[\w$]++)*+)""",
    re.VERBOSE | re.ASCII,
)


@lru_cache(maxsize=256)
def foreign(ttir: str) -> str | None:
    """The first thing in the text that no plan may hold, in words; None where there is none."""
    named = ""
    for found in _WORDS.finditer(ttir):
        word, kind = found.group(), found.lastgroup
        if kind == "type" and word.removeprefix("!") != "tt":
            return f"a type of {word}"
        if kind == "word" and (refused := _dialect(word)):
            return refused
        if kind == "string":
            text = word.strip('"')
            if ttir[found.end() : found.end() + 1] == "(" and "." in text and (refused := _dialect(text)):
                return refused
            if named == "symbol" and not EXTERNAL.fullmatch(text):
                return f"the external function {text[:80]!r}"
            if named in ("libpath", "libname") and text not in ("", "libdevice"):
                return f"the external library {text[:80]!r}"
            if named == "tt.elementwise_inline_asm" and (odd := _ASSEMBLY.search(text)):
                return f"inline assembly with {odd.group()!r}"
        named = word if kind == "word" else ""
    return None


def _dialect(word: str) -> str | None:
    dialect, dot, _ = word.partition(".")
    return f"the operation {word[:80]!r}" if dot and dialect not in DIALECTS and word not in OTHER_WORDS else None

"""Why a case of Triton's language tests did not pass: a table of rules over its name and its message.

A case that nothing but a GPU, or another Triton, could pass never reaches its value check; every other failure counts
against the backend. Invariant: the first rule that matches decides, and a message that none matches is the backend's.
Called by `language`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Whose failure it is."""

    GPU = "needs a GPU"
    FRONT_END = "not in this Triton"
    BACKEND = "failed"


@dataclass(frozen=True)
class Rule:
    """Both patterns are searched for. Without one for the message, the case counts as of this kind even if it passes:
    it says nothing about this backend.
    """

    kind: Kind
    reason: str
    message: str = ""
    case: str = ""


_GPU, _FRONT_END, _BACKEND = Kind.GPU, Kind.FRONT_END, Kind.BACKEND
RULES = (
    Rule(_GPU, "allocates on CUDA", r"Torch not compiled with CUDA enabled|No CUDA GPUs|Found no NVIDIA driver"),
    Rule(_GPU, "selects a CUDA device", r"'NoneType' and 'int'", r"test_zero_strided_tensors"),
    Rule(_GPU, "allocates pinned memory", r"no pinned memory allocator"),
    Rule(_GPU, "reads the assembly of a GPU", r"KeyError: .*'(ttgir|llir|ptx|sass|cubin|amdgcn)'"),
    Rule(_GPU, "expects a GPU's stage of compilation", r"make_ttgir"),
    Rule(_GPU, "compiles for CUDA or HIP by name", case=r"^test_compile_only\.py::"),
    Rule(_GPU, "expects CPU memory to be refused", case=r"test_pointer_arguments\[cpu\]"),
    Rule(_GPU, "expects a line per GPU thread", case=r"test_print\[(device_print_scalars|no_arg|print_no_arg)"),
    Rule(_GPU, "prints a shape made of a GPU's warps", case=r"test_print\[device_print_2d_tensor"),
    Rule(_GPU, "expects the 8-bit floats that a GPU lacks to fail", case=r"test_fp8_support\[dtype[1-4]"),
    Rule(_FRONT_END, "block pointers", r"make_block_ptr|block pointer"),
    Rule(_FRONT_END, "a name that is not there", r"module 'triton[\w.]*' has no attribute '\w+'"),
    Rule(_FRONT_END, "an argument that is not there", r"got an unexpected keyword argument 'descending'"),
    Rule(_FRONT_END, "inheritance of aggregates", r"constructor for \w+ did not initialize attribute"),
    Rule(_FRONT_END, "slices a scalar", r"too many indices for tensor of rank 0"),
    Rule(_FRONT_END, "Python syntax", r"unsupported AST node type"),
    Rule(_FRONT_END, "words an error otherwise", r"should not leak StopIteration|must have the same scale factor"),
    Rule(_FRONT_END, "expects the text that another version prints", r"/expected:\d+:\d+: error: CHECK"),
    Rule(
        _FRONT_END,
        "row numbers of 16 bits",
        r"'tt.descriptor_(gather|scatter)' op operand #\d must be ranked tensor of 32-bit",
    ),
    Rule(
        _FRONT_END, "negation is 0 - x there", r"ACTUAL: array\(\[False, False\]\)", r"test_neg_preserves_signed_zero"
    ),
    Rule(_BACKEND, "not compiled by this backend", r"UnsupportedConstruct"),
    Rule(_BACKEND, "C++ that does not compile", r"BuildError"),
    Rule(
        _BACKEND,
        "a scan of bfloat16 rounds at each step, as Triton 3.9 writes it; the test wants float32",
        r"Mismatched elements",
        r"test_scan2d\[cum(sum|prod)-bfloat16",
    ),
    Rule(
        _BACKEND,
        "clears the cache of a device named by a word; ours is a number",
        r"assert None is not None",
        r"test_passing_nested_tuple_with_constexpr_and_jit_hook",
    ),
    Rule(_BACKEND, "wrong values", r"AssertionError.*(?:\n.*)*(Not equal|not close|Mismatched elements)"),
    Rule(_BACKEND, "ends the process", r"^crash"),
    Rule(_BACKEND, "takes longer than the time-out", r"^time-out"),
)


@dataclass(frozen=True)
class Verdict:
    """A failure's kind, and its reason in a few words."""

    kind: Kind
    reason: str


def elsewhere(case: str) -> bool:
    """True for a case that says nothing about this backend, whether it passes or not."""
    return any(not rule.message and re.search(rule.case, case) for rule in RULES)


def judge(case: str, message: str) -> Verdict:
    """What the first matching rule says; else that the backend failed, with the message's first line."""
    for rule in RULES:
        if re.search(rule.message, message) and re.search(rule.case, case):
            return Verdict(rule.kind, rule.reason)
    first = message.strip().partition("\n")[0]
    return Verdict(Kind.BACKEND, first[:100] or "no message")

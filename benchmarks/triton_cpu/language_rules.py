"""Why a case of Triton's language tests did not pass: a table of rules over its message.

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
    """`pattern` is searched in the message; with `in_name` in the case's name, and then even if the case passed."""

    kind: Kind
    pattern: str
    reason: str
    in_name: bool = False


RULES = (
    Rule(Kind.GPU, r"Torch not compiled with CUDA enabled|No CUDA GPUs|Found no NVIDIA driver", "allocates on CUDA"),
    Rule(Kind.GPU, r"KeyError: .*'(ttgir|llir|ptx|sass|cubin|amdgcn)'", "reads the assembly of a GPU"),
    Rule(Kind.GPU, r"(?i)ptxas|cubin", "needs NVIDIA's assembler"),
    Rule(Kind.GPU, r"make_ttgir", "expects a GPU's stage of compilation"),
    Rule(Kind.GPU, r"no pinned memory allocator", "allocates pinned memory"),
    Rule(Kind.GPU, r"^test_core\.py::test_pointer_arguments\[cpu\]", "expects CPU memory to be refused", in_name=True),
    Rule(Kind.GPU, r"test_print\[(device_print_scalars|no_arg|print_no_arg)", "a line per GPU thread", in_name=True),
    Rule(Kind.GPU, r"test_print\[device_print_2d_tensor", "a shape made of a GPU's warps", in_name=True),
    Rule(Kind.GPU, r"test_fp8_support\[dtype[1-4]", "expects the 8-bit floats that a GPU lacks to fail", in_name=True),
    Rule(Kind.GPU, r"^test_compile_only\.py::", "compiles for CUDA or HIP by name", in_name=True),
    Rule(Kind.FRONT_END, r"make_block_ptr|block pointer", "block pointers are gone from this Triton"),
    Rule(Kind.FRONT_END, r"module 'triton[\w.]*' has no attribute '\w+'", "a name that this Triton lacks"),
    Rule(Kind.FRONT_END, r"unsupported AST node type", "Python syntax that its front end lacks"),
    Rule(
        Kind.FRONT_END,
        r"nested def should not leak StopIteration|Operands must have the same scale factor",
        "words or finds an error otherwise",
    ),
    Rule(Kind.FRONT_END, r"/expected:\d+:\d+: error: CHECK", "expects the text that another version prints"),
    Rule(
        Kind.FRONT_END,
        r"'tt.descriptor_(gather|scatter)' op operand #\d must be ranked tensor of 32-bit",
        "int16 row numbers are refused by its verifier",
    ),
    Rule(Kind.BACKEND, r"UnsupportedConstruct", "not compiled by this backend"),
    Rule(Kind.BACKEND, r"BuildError|could not build the kernel", "C++ that does not compile"),
    Rule(Kind.BACKEND, r"AssertionError.*(?:\n.*)*(Not equal|not close|Mismatched elements)", "wrong values"),
    Rule(Kind.BACKEND, r"^crash", "ends the process"),
    Rule(Kind.BACKEND, r"^time-out", "takes longer than the time-out"),
)


def elsewhere(case: str) -> bool:
    """True for a case that says nothing about this backend, whether it passes or not."""
    return any(rule.in_name and re.search(rule.pattern, case) for rule in RULES)


@dataclass(frozen=True)
class Verdict:
    """A failure's kind, and its reason in a few words."""

    kind: Kind
    reason: str


def judge(case: str, message: str) -> Verdict:
    """What the first matching rule says; else that the backend failed, with the message's first line."""
    for rule in RULES:
        if re.search(rule.pattern, case if rule.in_name else message):
            return Verdict(rule.kind, rule.reason)
    first = message.strip().partition("\n")[0]
    return Verdict(Kind.BACKEND, first[:100] or "no message")

"""Errors of the Triton CPU compiler.

Both carry a message that is complete on its own: what was met and on which source line. They derive from ValueError,
not from the package's own base class, because this package is imported by `import triton` and must stay free of
everything else.
"""

from __future__ import annotations


class TtirError(ValueError):
    """The text is not the TTIR it claims to be: bad syntax, an unknown name, types that do not fit."""


class UnsupportedConstruct(ValueError):  # noqa: N818 - a fact about the kernel, not a fault of the program
    """Valid TTIR that this backend does not compile.

    Attributes:
        construct: the operation or type, as TTIR spells it.
        reason: why not, and what to do instead.
        location: `file:line` in the kernel's source when the text carried one.
    """

    def __init__(self, construct: str, reason: str, location: str | None = None) -> None:
        where = f" at {location}" if location else ""
        super().__init__(f"the Triton CPU backend does not support {construct}{where}: {reason}")
        self.construct = construct
        self.reason = reason
        self.location = location

    def at(self, location: str | None) -> UnsupportedConstruct:
        """The same with its place, if it has none yet."""
        return self if self.location else UnsupportedConstruct(self.construct, self.reason, location)


MISFITS = (IndexError, KeyError, TypeError, ValueError)
"""What Python raises where an operation has not what it needs: only for text that no front end prints."""

_ADVICE = {
    "tt.elementwise_inline_asm": "inline PTX cannot run on a CPU; write it with tl operations, or keep it behind a "
    "constexpr parameter that is false where triton.runtime.driver.active.get_current_target().backend is 'cpu'",
    "tt.sort": "no dtype of it is supported on Ascend; write the order with reductions, or sort by comparing all pairs",
    "tt.extern_elementwise": "only the functions of libdevice are known here; use tl.math or libdevice",
}
_HARDWARE = ("ttg.", "ttng.", "nvg.", "nvgpu.", "nvvm.", "rocdl.", "amdgpu.", "amdg.", "tti.", "gluon.")


def reason_for(construct: str) -> str:
    """Why an operation without a rule cannot be compiled, and what to do."""
    if construct.startswith(_HARDWARE):
        return "it stands for a GPU's hardware; run this kernel on that GPU, or write it in tl operations"
    return _ADVICE.get(construct, "no such operation is known here")

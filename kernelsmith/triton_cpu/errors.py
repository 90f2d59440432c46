"""Errors of the Triton CPU compiler.

Both carry a message that is complete on its own: what was met and on which source line. They derive from ValueError,
not from the package's own base class, because this package is imported by `import triton` and must stay free of
everything else.
"""


class TtirError(ValueError):
    """The text is not the TTIR it claims to be: bad syntax, an unknown name, types that do not fit."""


class UnsupportedConstruct(ValueError):  # noqa: N818 - a fact about the kernel, not a fault of the program
    """Valid TTIR that this backend does not compile.

    Attributes:
        construct: the operation or type, as TTIR spells it.
        location: `file:line` in the kernel's source when the text carried one.
    """

    def __init__(self, construct: str, reason: str, location: str | None = None) -> None:
        where = f" at {location}" if location else ""
        super().__init__(f"the Triton CPU backend does not support {construct}{where}: {reason}")
        self.construct = construct
        self.location = location

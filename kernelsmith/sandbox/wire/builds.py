"""Building a kernel of the CPU once for everybody: what is asked of the builder, and what comes back.

A build is decided by its `Source` alone, and travels as bytes in a frame: whoever gets one has a copy of its own, so
nobody can change it for others. Invariant: every field is bounded. `builder` answers the judge, the judge keeps builds
by their source (`evaluate/binaries`) and hands them to candidates, who ask for them in the middle of a call, and to
launchers.
"""

from __future__ import annotations

import json
from typing import Literal, Self

from pydantic import ConfigDict, Field

from kernelsmith.base import Frozen
from kernelsmith.plan import MAX_TTIR_CHARS, Kernel
from kernelsmith.triton_cpu.emit.sites import Watch
from kernelsmith.triton_cpu.run.launch import Binary

MAX_CODE_BYTES = 16 << 20
MAX_PARAMETERS = 4096
MAX_WATCH_CHARS = 16 << 20


class Source(Frozen):
    """What decides a build, beside this package, the C++ compiler and the processor."""

    kind: Literal["source"] = "source"
    ttir: str = Field(max_length=MAX_TTIR_CHARS)
    fp_fusion: bool
    checked: bool = False

    @classmethod
    def of(cls, kernel: Kernel, *, checked: bool = False) -> Self:
        """The source of a plan's kernel."""
        return cls(ttir=kernel.ttir, fp_fusion=kernel.options.get("enable_fp_fusion") is not False, checked=checked)


class Built(Frozen):
    """A compiled kernel as plain data (see `launch.Binary`)."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    kind: Literal["built"] = "built"
    name: str = Field(max_length=512)
    arguments: tuple[str, ...] = Field(max_length=MAX_PARAMETERS)
    scratch_bytes: int = Field(ge=0, lt=2**63)
    waits: bool
    watch: str | None = Field(max_length=MAX_WATCH_CHARS)
    """What its monitor needs to know, as JSON."""
    code: bytes = Field(max_length=MAX_CODE_BYTES)
    """The shared library."""

    @classmethod
    def of(cls, binary: Binary) -> Self:
        watch = None if binary.watch is None else json.dumps(binary.watch.as_json())
        return cls(**{**vars(binary), "watch": watch})

    def binary(self) -> Binary:
        """Raises ValueError where `watch` is not what the emitter writes."""
        try:
            watch = None if self.watch is None else Watch.from_json(json.loads(self.watch))
        except (KeyError, TypeError) as error:
            raise ValueError(f"what a monitor is to know of {self.name} is malformed: {error!r}") from error
        return Binary(self.name, self.arguments, self.scratch_bytes, self.code, self.waits, watch)


class Identify(Frozen):
    """Asks for what decides builds beside their source; nothing hostile was read before."""

    kind: Literal["identify"] = "identify"


class Identified(Frozen):
    kind: Literal["identified"] = "identified"
    toolchain: str = Field(max_length=4096)

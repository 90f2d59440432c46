"""What the processor's vector unit can do, as far as code generation needs to know.

Owns the choice of vector width and of the compiler's architecture flags. Invariant: standard library only, since it is
imported by `import triton` through the backend entry point. Called by the code generator, the maths library and the
build step.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Isa:
    """One instruction-set level.

    `lanes` counts the float32 lanes of the widest register that explicit vectors should use. `bf16_dot` says that
    `vdpbf16ps` exists; it takes denormal inputs as zero. `flags` are handed to the C++ compiler as they are.
    """

    name: str
    lanes: int
    avx512: bool
    avx2: bool
    f16c: bool
    bf16_dot: bool
    vnni: bool
    flags: tuple[str, ...]

    @property
    def swaps_16_bytes(self) -> bool:
        """Whether memory can be compared and exchanged 16 bytes at a time (cmpxchg16b, older than AVX2)."""
        return self.avx2


AVX512 = Isa("avx512", 16, True, True, True, False, False, ("-march=x86-64-v4",))
AVX2 = Isa("avx2", 8, False, True, True, False, False, ("-march=x86-64-v3",))
BASELINE = Isa("baseline", 4, False, False, False, False, False, ())


def isa_for(cpu_flags: frozenset[str]) -> Isa:
    """The level for a processor with these `/proc/cpuinfo` flags, compiled with `-march=native`."""
    avx2 = {"avx2", "fma"} <= cpu_flags
    avx512 = avx2 and {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= cpu_flags
    base = AVX512 if avx512 else AVX2 if avx2 else BASELINE
    return Isa(
        name=base.name,
        lanes=base.lanes,
        avx512=avx512,
        avx2=avx2,
        f16c=avx2 and "f16c" in cpu_flags,
        bf16_dot=avx512 and "avx512_bf16" in cpu_flags,
        vnni=avx512 and "avx512_vnni" in cpu_flags,
        flags=("-march=native",),
    )


@functools.cache
def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Feature names of the first processor listed: `flags` on x86, `Features` on Arm; empty where there is no file."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


@functools.cache
def host_isa() -> Isa:
    """The level of the machine that runs this process."""
    return isa_for(cpu_flags())


@functools.cache
def host_fingerprint() -> str:
    """A short hash that differs between machines on which `-march=native` may mean different instructions."""
    text = " ".join([platform.machine(), *sorted(cpu_flags())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]

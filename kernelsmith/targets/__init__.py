"""Targets: the devices that kernels are made for, as data.

`schema` says what is known of a device, `files` reads it from `targets/*.toml` and `targets/families/*.toml`, `facts`
words it for proposers and `page` for people. Used by the judge, the commands and the prompts.
"""

from kernelsmith.targets.facts import facts
from kernelsmith.targets.files import available, fitting, load, resolve
from kernelsmith.targets.schema import (
    Access,
    Construct,
    Cores,
    Limits,
    LintRule,
    Multiprocessor,
    Offline,
    Peaks,
    Target,
    Toolchain,
    TritonInfo,
    is_toolkit,
)

__all__ = [
    "Access",
    "Construct",
    "Cores",
    "Limits",
    "LintRule",
    "Multiprocessor",
    "Offline",
    "Peaks",
    "Target",
    "Toolchain",
    "TritonInfo",
    "available",
    "facts",
    "fitting",
    "is_toolkit",
    "load",
    "resolve",
]

"""Target files: what a device is, as data.

Owns the schema of `targets/*.toml`. Invariant: a unit is part of every quantity's name, an unknown key is an error, and
a peak has a source or is measured. Called by the judge, the commands and the prompts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator

from kernelsmith import files, keys, resources
from kernelsmith.base import Frozen, Scalar
from kernelsmith.errors import UsageError
from kernelsmith.proposal import TargetFacts


class TritonInfo(Frozen):
    """Which Triton compiles for the device, and for what `GPUTarget`."""

    distribution: str
    """Name on the package index: `triton`, `triton-ascend`, ..."""
    at_least: str
    below: str
    """Versions: at_least <= version < below."""
    backend: str
    arch: str | int | None = None
    """None: whatever the driver says of the device that is present."""
    warp_size: int = Field(ge=0)


class Limits(Frozen):
    """What a kernel may not exceed; None where the device has no such limit."""

    tile_elements: int | None = Field(default=None, gt=0)
    """Largest block of one tensor value."""
    grid_programs: int | None = Field(default=None, gt=0)
    """Largest size of one axis of the grid."""
    threads_per_program: int | None = Field(default=None, gt=0)
    registers_per_thread: int | None = Field(default=None, gt=0)
    shared_memory_bytes: int | None = Field(default=None, gt=0)
    unified_buffer_bytes: int | None = Field(default=None, gt=0)
    l0c_bytes: int | None = Field(default=None, gt=0)
    alignment_bytes: int | None = Field(default=None, gt=0)
    missing_dtypes: tuple[str, ...] = ()


class SourcedPeak(Frozen):
    value: float = Field(gt=0)
    source: str = Field(min_length=1)
    """Where the value was read: a datasheet, a page."""


Peak = Literal["measure"] | SourcedPeak


class Peaks(Frozen):
    """Upper bounds of the device; the roofline is made of them."""

    memory_gb_per_s: Peak = "measure"
    float32_tflop_per_s: Peak = "measure"
    bfloat16_tflop_per_s: Peak = "measure"


_HARMLESS = ("/usr/", "/opt/", "/sys/", "/nix/store/")


def is_toolkit(folder: str) -> bool:
    """Whether candidates may read this folder of the host, wherever links and `..` in it lead: nobody's home lies
    there."""
    return all(path.startswith(_HARMLESS) for path in (folder, os.path.realpath(folder)))


class Access(Frozen):
    """What a confined process is let through to beside the system, as patterns of pathlib; empty for the CPU."""

    cards: str | None = Field(default=None, pattern=r"^/dev/")
    """Device nodes of single cards, one each; a process is given one of them."""
    nodes: tuple[str, ...] = ()
    """Device nodes of the driver that every card needs."""
    folders: tuple[str, ...] = ()
    """Toolkits and driver libraries that lie outside the system's own folders."""
    environment: tuple[str, ...] = ()
    """Variables that are passed on. Folders that they name are readable too; one that names a folder where `folders`
    may not lie is left out."""

    @model_validator(mode="after")
    def _harmless(self) -> Self:
        """A target file may not open a home or a folder of secrets to candidates."""
        for pattern in (*self.nodes, *filter(None, [self.cards])):
            if not pattern.startswith("/dev/") or ".." in pattern or "**" in pattern:
                raise ValueError(f"{pattern!r} is no device node: patterns of nodes begin with /dev/")
        for pattern in self.folders:
            if not pattern.startswith(_HARMLESS) or ".." in pattern or "**" in pattern:
                raise ValueError(f"{pattern!r} is not let through: folders lie below {', '.join(_HARMLESS)}")
        for name in self.environment:
            if not name.isidentifier() or keys.holds_secret(name, ""):
                raise ValueError(f"{name!r} is not passed on: it is no variable's name, or may hold a secret")
        return self


class Target(Frozen):
    """One device that kernels are made for."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    summary: str
    torch_device: str
    """torch device type: `cpu`, `cuda`, `npu`, ..."""
    plugin: str | None = None
    """Module that registers the torch device when imported."""
    module: str = Field(default="kernelsmith.devices.cpu", pattern=r"^[A-Za-z_][\w.]*$")
    """How its kernels are compiled, bound and timed: a module with `open_device()`."""
    triton: TritonInfo
    access: Access = Access()
    limits: Limits = Limits()
    peaks: Peaks = Peaks()
    cache_flush_bytes: int = Field(gt=0)
    """Size of a buffer whose overwriting leaves nothing else in the caches."""
    visible_devices: str | None = None
    """Environment variable that selects cards."""
    query: Literal["nvidia-smi"] | None = None
    """Command that says which processes hold the device's memory, where one is understood."""
    profiler: str | None = None
    useless_knobs: tuple[str, ...] = ()
    """Launch options that change nothing here, so that nobody tunes them."""
    cluster_resources: dict[str, str] = {}
    """What a scheduler calls the device: `ray`, `kubernetes`, ..."""
    knowledge: tuple[str, ...] = ()
    """Files `prompts/knowledge/NAME.md` for prompts, general ones first."""
    notes: str = ""
    """Markdown for prompts, beside the knowledge files."""


def available(flag: Path | None = None) -> dict[str, Path]:
    """Target files by name, in order."""
    return {Path(name).stem: path for name, path in resources.matching("targets", "*.toml", flag).items()}


def load(name: str, flag: Path | None = None) -> Target:
    """Read one target by name; raises UsageError with the file and the key that is wrong."""
    found = available(flag)
    if name not in found:
        raise UsageError(f"unknown target {name!r}", f"targets: {', '.join(found) or 'none found'}")
    path = found[name]
    try:
        target = Target.model_validate(files.read_toml(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        what = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
        raise UsageError(f"{path}: {key}: {what}", f"keys: {', '.join(Target.model_fields)}") from error
    if target.name != name:
        raise UsageError(f"{path}: name is {target.name!r}", f"a target's file is called after it: {target.name}.toml")
    return target


def resolve(device: str, flag: Path | None = None) -> Target:
    """The target that `--device` means: a target's name, or a torch device type that one target has."""
    found = available(flag)
    if device in found:
        return load(device, flag)
    targets = [load(name, flag) for name in found]
    fitting = [target for target in targets if target.torch_device == device]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(target.name for target in fitting or targets)
    if fitting:
        raise UsageError(f"--device {device} can be any of {names}", "name one of them")
    raise UsageError(f"unknown device {device!r}", f"devices: {names or 'none found'}")


def facts(target: Target, prompts: Path | None = None) -> TargetFacts:
    """What a proposer is told of the device. `prompts` is the folder of the `--prompts` flag."""
    limits = {name: value for name, value in target.limits if isinstance(value, int)}
    texts = [resources.read("prompts", f"knowledge/{name}.md", prompts) for name in target.knowledge]
    missing = target.limits.missing_dtypes
    shown: dict[str, Scalar] = {**limits, **({"missing_dtypes": ", ".join(missing)} if missing else {})}
    return TargetFacts(
        name=target.name,
        device=target.torch_device,
        summary=target.summary,
        limits=shown,
        notes="\n".join(text.strip() + "\n" for text in [*texts, target.notes] if text.strip()),
        useless_knobs=target.useless_knobs,
    )

"""Which target `--device` means on this machine, and how far a target can be used here.

Invariant: as in `cards`, only files are looked at: no device is opened and nothing heavy is imported. Called by the
commands and by whoever begins a run.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelsmith import toolchains
from kernelsmith.devices.cards import NVIDIA, cards
from kernelsmith.devices.state import word_of
from kernelsmith.errors import UsageError
from kernelsmith.targets import Target, fitting, resolve

_MODEL = re.compile(r"^Model:\s*(.+?)\s*$", re.MULTILINE)


def choose(device: str, flag: Path | None = None, driver: Path = NVIDIA) -> Target:
    """The target that a name, a torch device type or a family means: among several, the one whose card is here.

    Raises UsageError where none or several are, with what this machine lacks and what can be done about it.
    """
    found = fitting(device, flag)
    if len(found) < 2:
        return resolve(device, flag)
    here = [target for target in found if is_here(target, driver)]
    if len(here) == 1:
        return here[0]
    names = ", ".join(target.name for target in here or found)
    if here:
        raise UsageError(f"--device {device} can be any of {names}", "name the one whose card is here")
    if unknown := [model for model in _models(driver) if any(target.query == "nvidia-smi" for target in found)]:
        raise UsageError(
            f"--device {device}: the card here is a {unknown[0]}, which no target file describes",
            f"name the one that is most like it ({names}), or write a file of its own: --targets DIR",
        )
    raise UsageError(
        f"--device {device}: no such device here; it can be any of {names}" + _missing(found),
        _advice([target for target in found if target.offline is not None]),
    )


def is_here(target: Target, driver: Path = NVIDIA) -> bool:
    """Whether a card of just this kind is here, as far as files tell."""
    if target.access.cards is None:
        return target.torch_device == "cpu"
    if not cards(target):
        return False
    models = _models(driver) if target.query == "nvidia-smi" else []
    known = [model for model in models if any(_names(word, model) for word in target.reported_as)]
    return bool(known) or not models


def use_of(target: Target) -> str:
    """How far a target can be used here, in the words that `targets list` explains."""
    try:
        if is_here(target):
            return word_of(target)
    except UsageError:  # the variable that chooses cards is not understood; whoever wants to use one is told
        return word_of(target)
    if target.offline is None:
        return "description only"
    return "toolchain" if has_compiler(target) else "offline"


def has_compiler(target: Target) -> bool:
    """Whether what compiles for the target without its device is installed."""
    if target.toolchain is None:
        return False
    if target.toolchain.packages:
        return toolchains.located(target) is not None
    try:
        version = importlib.metadata.version(target.toolchain.distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    low, here, below = (_numbers(text) for text in (target.triton.at_least, version, target.triton.below))
    return low <= here < below


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _models(driver: Path) -> list[str]:
    """What NVIDIA's driver calls its cards."""
    texts = []
    for path in driver.glob("*/information"):
        try:
            texts.append(path.read_text(errors="replace"))
        except OSError:  # a card that is being taken away
            continue
    return [model for text in texts for model in _MODEL.findall(text)]


def _names(word: str, model: str) -> bool:
    """Whether a word stands in a card's name: H20 is not in H200, nor B200 in GB200."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", model, re.IGNORECASE) is not None


def _missing(targets: Iterable[Target]) -> str:
    """What would show that one of these devices is here, as far as their files tell."""
    nodes = {target.access.cards for target in targets if target.access.cards}
    plugins = {target.plugin for target in targets if target.plugin and importlib.util.find_spec(target.plugin) is None}
    hidden = {target.visible_devices for target in targets if (target.visible_devices or "") in os.environ}
    missing = [
        *(f"a device file {node}" for node in sorted(nodes)),
        *(f"the Python package {plugin}" for plugin in sorted(plugins)),
        *(f"a card that {name}={os.environ[name]} names" for name in sorted(filter(None, hidden))),
    ]
    return f". Missing: {'; '.join(missing)}" if missing else ""


def _advice(offline: Sequence[Target]) -> str:
    if not offline:
        return "run it on a machine that has one, or name another device; `kernelsmith targets list` shows them"
    one = offline[(len(offline) - 1) // 2]
    install = "" if has_compiler(one) else f"`kernelsmith targets install {one.name}`, then "
    return (
        f"on a machine that has one, install its driver and torch plugin, or pass the device on to this container; "
        f"without one: {install}--device {one.name} --without-device"
    )

"""The cards of this machine that a target's file describes, and what a process needs to use one of them.

Invariant: nothing here opens a device or asks a driver, so it is safe in any process and cannot hang. Judges choose a
card with it and let exactly its files through to candidates; `doctor` and `targets list` show the state of the files.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.devices import MODULE_VARIABLE, PLUGIN_VARIABLE, TARGET_VARIABLE, TORCH_VARIABLE
from kernelsmith.errors import UsageError
from kernelsmith.targets import Target, is_toolkit

NVIDIA = Path("/proc/driver/nvidia/gpus")
"""Where NVIDIA's driver describes its cards: a folder for each, named after its place on the bus (README of the driver,
"The /proc file system interface")."""
_ANY_VENDORS = "/dev/dri/"
"""Where the kernel puts the nodes of graphics cards, whoever made them; a driver for computing has one of its own."""
_TOLD = re.compile(r"^(GPU UUID|Device Minor):\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Card:
    """One device; `name` is torch's (`cuda:1`), `node` its own device file, None for the CPU."""

    name: str
    index: int
    node: str | None
    uuid: str | None = None

    @property
    def known_as(self) -> str:
        """What tools of the driver call it: by its UUID where that is known, since they count cards in ways of their
        own."""
        return self.uuid or str(self.index)


def cards(target: Target, environment: Mapping[str, str] = os.environ, driver: Path = NVIDIA) -> tuple[Card, ...]:
    """The cards that are here, by their place on the bus where `driver` tells it, else by their nodes' numbers; only
    those that the visible-devices variable names, if it is set. The CPU is one card without a node.

    Raises UsageError where that variable names one in a way that is not understood.
    """
    if target.access.cards is None:
        return (Card(target.torch_device, 0, None),)
    if target.access.cards.startswith(_ANY_VENDORS) and not all(map(matching, target.access.nodes)):
        return ()
    told = _told(driver) if target.query == "nvidia-smi" else {}
    nodes = [(told.get(_number(node), _Told()), node) for node in matching(target.access.cards)]
    nodes.sort(key=lambda one: (one[0].bus, _number(one[1]), one[1]))
    found = [Card(f"{target.torch_device}:{n}", n, node, about.uuid) for n, (about, node) in enumerate(nodes)]
    wanted = environment.get(target.visible_devices or "")
    return tuple(found if wanted is None else _chosen(found, wanted, str(target.visible_devices)))


def _chosen(found: Sequence[Card], wanted: str, variable: str) -> list[Card]:
    """As CUDA reads the variable: what comes after a number that no card has is not seen, so that an empty text or -1
    means none."""
    chosen = set()
    for one in map(str.strip, wanted.split(",")):
        whole = one.startswith("GPU-")
        fits = [card for card in found if one == str(card.index) or (whole and (card.uuid or "").startswith(one))]
        if len(fits) != 1 and one and not one.removeprefix("-").isdecimal():
            raise UsageError(
                f"{variable}={wanted}: no card here is known as {one!r}",
                "name cards by their numbers on the bus (0,1) or by UUID (GPU-...); slices of cards cannot be used",
            )
        if len(fits) != 1:
            break
        chosen.add(fits[0])
    return sorted(chosen, key=lambda card: card.index)


def present(target: Target) -> tuple[Card, ...]:
    """As `cards`, at least one. Raises UsageError that says which files are missing."""
    found = cards(target)
    if not found:
        chosen = f" that {target.visible_devices} names" if (target.visible_devices or "") in os.environ else ""
        raise UsageError(
            f"no {target.name} here: there is no file {target.access.cards}{chosen}",
            "install the driver, or pass the device on to this container; `kernelsmith doctor` shows what is there",
        )
    return found


def readable(target: Target, card: Card, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Files that a confined process needs for this card: its node, the driver's nodes and the toolkits."""
    toolkits = [folder for text in _passed(target, environment).values() for folder in _folders(text)]
    patterns = (*target.access.nodes, *target.access.folders)
    present = [path for pattern in patterns for path in matching(pattern)]
    return tuple(dict.fromkeys([*([card.node] if card.node else []), *present, *toolkits]))


def variables(target: Target, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment of a confined process. The one card whose node is let through is number 0 to it."""
    chosen = {target.visible_devices: "0"} if target.visible_devices and target.access.cards else {}
    return {
        **_passed(target, environment),
        **chosen,
        **_reached(target),
        **_compiled_for(target),
    }


def host_variables(target: Target, card: Card) -> dict[str, str]:
    """Environment of a trusted process that sees the whole machine and is to use this card, for baselines."""
    if card.node is None:
        return {}
    chosen = {target.visible_devices: card.known_as} if target.visible_devices else {}
    return {**chosen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **_reached(target), **target.no_fallback}


def withheld(target: Target, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The target's variables that are set and not passed on, because they name a folder of somebody's own."""
    passed = _passed(target, environment)
    return tuple(name for name in target.access.environment if name in environment and name not in passed)


def _passed(target: Target, environment: Mapping[str, str]) -> dict[str, str]:
    """What is passed on to candidates: values that name no folder, or only such as a target's file may name itself."""
    given = {name: environment[name] for name in target.access.environment if name in environment}
    return {name: value for name, value in given.items() if all(map(is_toolkit, _folders(value)))}


def _folders(value: str) -> list[str]:
    return [part for part in value.split(os.pathsep) if part.startswith("/")]


@dataclass(frozen=True)
class _Told:
    """What the driver says of one card."""

    bus: str = ""
    uuid: str | None = None


def _told(driver: Path) -> dict[int, _Told]:
    """By the number in the card's node; empty where the driver describes nothing."""
    told = {}
    for path in driver.glob("*/information"):
        with contextlib.suppress(OSError):  # a card that is being taken away
            fields = dict(_TOLD.findall(path.read_text(errors="replace")))
            if {"GPU UUID", "Device Minor"} <= fields.keys() and fields["Device Minor"].isdecimal():
                told[int(fields["Device Minor"])] = _Told(path.parent.name, fields["GPU UUID"])
    return told


def _reached(target: Target) -> dict[str, str]:
    """By which module a process has the device, and what torch calls it."""
    plugin = {PLUGIN_VARIABLE: target.plugin} if target.plugin else {}
    return {MODULE_VARIABLE: target.module, TORCH_VARIABLE: target.torch_device, **plugin}


def _compiled_for(target: Target) -> dict[str, str]:
    """What devices/kernels.py compiles for, where the target's file says it."""
    info = target.triton
    if info.arch is None or info.backend == "cpu":
        return {}
    return {TARGET_VARIABLE: f"{info.backend}:{info.arch}:{info.warp_size}"}


def matching(pattern: str) -> list[str]:
    """Paths that a pattern of a target's file stands for, in order."""
    return sorted(map(str, Path("/").glob(pattern.lstrip("/"))))


def _number(node: str) -> int:
    digits = re.search(r"\d+$", node)
    return int(digits.group()) if digits else 0

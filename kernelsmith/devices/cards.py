"""The cards of this machine that a target's file describes, and what a process needs to use one of them.

Invariant: nothing here opens a device or asks a driver, so it is safe in any process and cannot hang. Judges choose a
card with it and let exactly its files through to candidates; `doctor` and `targets list` show the state of the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.errors import UsageError
from kernelsmith.targets import Target


@dataclass(frozen=True)
class Card:
    """One device; `name` is torch's (`cuda:1`), `node` its own device file, None for the CPU."""

    name: str
    index: int
    node: str | None


def cards(target: Target, environment: Mapping[str, str] = os.environ) -> tuple[Card, ...]:
    """The cards that are here, in the order of their nodes' numbers; those of the visible-devices variable if it names
    numbers. The CPU is one card without a node."""
    if target.access.cards is None:
        return (Card(target.torch_device, 0, None),)
    nodes = sorted(matching(target.access.cards), key=lambda node: (_number(node), node))
    found = [Card(f"{target.torch_device}:{index}", index, node) for index, node in enumerate(nodes)]
    wanted = environment.get(target.visible_devices or "", "").split(",")
    if wanted == [""] or not all(one.strip().isdecimal() for one in wanted):
        return tuple(found)
    return tuple(card for card in found if card.index in {int(one) for one in wanted})


def present(target: Target) -> tuple[Card, ...]:
    """As `cards`, at least one. Raises UsageError that says which files are missing."""
    found = cards(target)
    if not found:
        chosen = f" that {target.visible_devices} names" if os.environ.get(target.visible_devices or "") else ""
        raise UsageError(
            f"no {target.name} here: there is no file {target.access.cards}{chosen}",
            "install the driver, or pass the device on to this container; `kernelsmith doctor` shows what is there",
        )
    return found


def readable(target: Target, card: Card, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Files that a confined process needs for this card: its node, the driver's nodes and the toolkits."""
    named = [environment.get(name, "") for name in target.access.environment]
    toolkits = [folder for text in named for folder in text.split(os.pathsep) if folder.startswith("/")]
    patterns = (*target.access.nodes, *target.access.folders)
    present = [path for pattern in patterns for path in matching(pattern)]
    return tuple(dict.fromkeys([*([card.node] if card.node else []), *present, *toolkits]))


def variables(target: Target, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment of a confined process. The one card whose node is let through is number 0 to it."""
    kept = {name: environment[name] for name in target.access.environment if name in environment}
    chosen = {target.visible_devices: "0"} if target.visible_devices and target.access.cards else {}
    return {**kept, **chosen, "KERNELSMITH_DEVICE_MODULE": target.module, **_compiled_for(target)}


def host_variables(target: Target, card: Card) -> dict[str, str]:
    """Environment of a trusted process that sees the whole machine and is to use this card."""
    if card.node is None:
        return {}
    chosen = {target.visible_devices: str(card.index)} if target.visible_devices else {}
    return {**chosen, "KERNELSMITH_DEVICE_MODULE": target.module}


def _compiled_for(target: Target) -> dict[str, str]:
    """What devices/gpu.py compiles for, where the target's file says it."""
    info = target.triton
    if info.arch is None or info.backend == "cpu":
        return {}
    return {"KERNELSMITH_TRITON_TARGET": f"{info.backend}:{info.arch}:{info.warp_size}"}


def matching(pattern: str) -> list[str]:
    """Paths that a pattern of a target's file stands for, in order."""
    return sorted(map(str, Path("/").glob(pattern.lstrip("/"))))


def _number(node: str) -> int:
    digits = re.search(r"\d+$", node)
    return int(digits.group()) if digits else 0

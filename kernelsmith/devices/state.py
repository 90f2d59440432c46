"""What state the cards of a target are in, as far as files tell: for `doctor`, `targets list` and whoever asks why.

Invariant: no device is opened, so a card that hangs cannot hang this, and nothing heavy is imported.
"""

from __future__ import annotations

import grp
import importlib.util
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.devices import marks
from kernelsmith.devices.cards import Card, cards, matching
from kernelsmith.errors import UsageError
from kernelsmith.model import DeviceMark
from kernelsmith.targets import Target


@dataclass(frozen=True)
class CardState:
    """One card: the driver's files that are missing, those that this user may not use, the mark if it is bad, and
    torch's plugin where that is not installed."""

    card: Card
    missing: tuple[str, ...]
    forbidden: tuple[str, ...]
    mark: DeviceMark | None
    plugin: str | None = None

    @property
    def word(self) -> str:
        """In one word or two, for a table."""
        if self.mark is not None:
            return "given up"
        return "not allowed" if self.forbidden else "incomplete" if self.missing or self.plugin else "ready"

    @property
    def advice(self) -> str:
        """What to do about it; empty where nothing is."""
        if self.mark is not None:
            return (
                "it is probed before the next use and used again once it answers; "
                f"if you have reset it, rm {marks.file_of(self.card.name, 'bad')}"
            )
        if self.forbidden:
            groups = sorted({group for node in self.forbidden if (group := _group_of(node))})
            if not groups:
                return "only root may use them: a rule of udev, or the driver's options, give them to a group"
            return f"join the group that owns them: usermod -aG {','.join(groups)} USER, then log in again"
        if self.missing:
            return "load the rest of the driver, or pass these files on to this container"
        return f"install {self.plugin} for the torch and the driver that are here" if self.plugin else ""


def look(target: Target) -> tuple[CardState, ...]:
    """The cards of a target that are here, each in its state. None for the CPU, which needs no file. Raises UsageError
    where the variable that chooses cards is not understood."""
    if target.access.cards is None:
        return ()
    found = [node for pattern in target.access.nodes for node in matching(pattern)]
    missing = tuple(pattern for pattern in target.access.nodes if "*" not in pattern and not matching(pattern))
    plugin = target.plugin if target.plugin and importlib.util.find_spec(target.plugin) is None else None
    return tuple(
        CardState(card, missing, _forbidden([*filter(None, [card.node]), *found]), marks.read(card.name), plugin)
        for card in cards(target)
    )


def word_of(target: Target) -> str:
    """The state of a target's device in a word: the best of its cards counts."""
    if target.access.cards is None:
        return "ready"
    try:
        words = [state.word for state in look(target)]
    except UsageError:  # whoever wants to use one is told
        return f"{target.visible_devices}?"
    return next((word for word in ("ready", "incomplete", "given up", "not allowed") if word in words), "no card here")


def _forbidden(nodes: Iterable[str]) -> tuple[str, ...]:
    """Devices are read and written; those that only root needs (capabilities, say) are readable at least."""
    return tuple(node for node in nodes if not os.access(node, os.R_OK if "-caps/" in node else os.R_OK | os.W_OK))


def _group_of(node: str) -> str | None:
    """The group that a user can join; None where it is root's, or the node has gone."""
    try:
        gid = Path(node).stat().st_gid
        return grp.getgrgid(gid).gr_name if gid else None
    except FileNotFoundError:
        return None
    except KeyError:  # a container that does not know the host's groups
        return str(gid)

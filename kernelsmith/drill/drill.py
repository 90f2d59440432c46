"""The whole set in one mode: a zygote, a world around it, every program by turns.

Invariant: when a generator here is closed, at its end or before, no process and no file of it is left. The acts need no
torch, and so no more than a bare zygote; the cheats are judged in a `Room`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from kernelsmith.diagnosis import DrillReport, DrillResult
from kernelsmith.drill import catalog
from kernelsmith.drill.perform import perform
from kernelsmith.drill.role import ROLE
from kernelsmith.drill.world import World
from kernelsmith.errors import SandboxError
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Layer

FULL = "full"
MODES: Mapping[str, tuple[Layer, ...]] = MappingProxyType(
    {
        FULL: (),
        "without user namespaces": (Layer.USER_NAMESPACES,),
        "without namespaces": (Layer.NAMESPACES,),
        "without Landlock": (Layer.LANDLOCK,),
    }
)
Chosen = Callable[[str], bool]
"""Whether a program of this name is wanted."""


def everything(name: str) -> bool:
    return True


def play_acts(mode: str, *, python: str = sys.executable, wanted: Chosen = everything) -> Iterator[DrillResult]:
    """Every act in a bare zygote. Raises SandboxError where this mode cannot be had."""
    with World() as world, Zygote(python=python, preload=(ROLE,), without=MODES[mode]) as zygote, world.around(zygote):
        for act in catalog.acts():
            if wanted(act.name):
                yield perform(act, world, zygote, mode)


def play_cheats(mode: str, *, wanted: Chosen = everything) -> Iterator[DrillResult]:
    """Every cheat in a room of its own. Raises KernelsmithError where nothing can be judged here."""
    from kernelsmith.drill.deceive import TARGET, Court, deceive
    from kernelsmith.evaluate.room.room import Room

    cheats = [cheat for cheat in catalog.cheats() if wanted(cheat.name)]
    if not cheats:
        return
    with World() as world:
        room = Room(TARGET, without=MODES[mode])
        try:
            with world.around(room.zygote):
                court = Court(room, world.private)
                yield from (deceive(cheat, world, court, mode) for cheat in cheats)
        finally:
            room.close()


def everywhere(tell: Callable[[DrillResult], None]) -> DrillReport:
    """The whole set with all that this place has to confine it, then the acts with one layer left out at a time; some
    two minutes. Raises KernelsmithError where candidates cannot be confined here at all.
    """
    results: list[DrillResult] = []
    not_run: dict[str, str] = {}

    def take(found: Iterator[DrillResult]) -> None:
        for result in found:
            results.append(result)
            tell(result)

    take(play_acts(FULL))
    try:
        take(play_cheats(FULL))
    except ModuleNotFoundError as error:
        not_run["cheats"] = str(error)
    for mode in (mode for mode in MODES if mode != FULL):
        try:
            take(play_acts(mode))
        except SandboxError as error:
            not_run[mode] = error.message
    return DrillReport(results=tuple(results), not_run=not_run)

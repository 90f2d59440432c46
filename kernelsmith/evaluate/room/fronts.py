"""Zygotes whose Triton is a chip's own: candidates for it are recorded there, since upstream's front end refuses what
the chip's accepts and the other way round. Builders, launchers and compilers stay with the Triton beside kernelsmith.

Invariant: a toolchain is imported by such a zygote and its forks, never by the judge; it is shown to them read-only, in
the same confinement as every other package. A room keeps one per chip and ends them all.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path

from kernelsmith import toolchains
from kernelsmith.compiled import Chip
from kernelsmith.devices import TARGET_VARIABLE
from kernelsmith.errors import InfrastructureError
from kernelsmith.offline.fit import chip_of
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.roles import WARM_ASCEND
from kernelsmith.targets import Offline, Target

WARMS = {Offline.ASCEND: WARM_ASCEND}
"""By family: what makes its Triton record here. Others have no front end of their own."""

Start = Callable[[str, Path, dict[str, str]], Zygote]
"""Starts a zygote, given what warms it, the folder its Triton is imported from, and more variables."""


class Fronts:
    """By chip; each is started when first asked for. Thread-safe."""

    def __init__(self, start: Start, targets: Callable[[], list[Target]]) -> None:
        self._start = start
        self._targets = functools.cache(targets)
        self._lock = threading.Lock()
        self._zygotes: dict[Chip, Zygote] = {}

    def of(self, chip: Chip) -> Zygote:
        """The chip's. Raises InfrastructureError where there is none, as `own_front` says beforehand."""
        with self._lock:
            if chip not in self._zygotes:
                self._zygotes[chip] = self._made(chip)
            return self._zygotes[chip]

    def close(self) -> None:
        """End them."""
        with self._lock:
            for zygote in self._zygotes.values():
                zygote.close()
            self._zygotes.clear()

    def has(self, chip: Chip) -> bool:
        """Whether there is one for it."""
        return self._target(chip) is not None

    def _target(self, chip: Chip) -> Target | None:
        return next((t for t in self._targets() if chip_of(t) == chip and own_front(t) is not None), None)

    def _made(self, chip: Chip) -> Zygote:
        target = self._target(chip)
        place = own_front(target) if target is not None else None
        if target is None or target.offline is None or place is None:
            raise InfrastructureError(f"no front end for {chip.label} here", "kernelsmith targets install TARGET")
        return self._start(WARMS[target.offline], place, _told(chip))


def own_front(target: Target) -> Path | None:
    """The folder that the target's own Triton is imported from; None where upstream's makes its TTIR."""
    return toolchains.importable(target) if target.offline in WARMS else None


def _told(chip: Chip) -> dict[str, str]:
    """Variables of its process."""
    return {
        TARGET_VARIABLE: f"{chip.backend}:{chip.arch}:{chip.warp_size}",
        # Without it more than 65,535 programs are an error of the host's code; `fit` tells that of tuned workloads, in
        # words, and elsewhere it is for whoever runs the kernel to set.
        "TRITON_ALL_BLOCKS_PARALLEL": "1",
    }

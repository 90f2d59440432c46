"""What `kernelsmith doctor` prints under `--json`: the state of the machine, and what hostile programs did in it.

Invariant: as in `records`, of which these are a part: frozen types that name what they hold.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from kernelsmith.base import Frozen


class Health(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Frozen):
    """One line of the doctor's report."""

    name: str
    health: Health
    detail: str
    fix: str = ""


class Diagnosis(Frozen):
    findings: tuple[Finding, ...]


class DrillFault(StrEnum):
    """What a hostile program must not bring about."""

    ESCAPE = "escape"
    SURVIVOR = "survivor"
    FALSE_PASS = "false_pass"
    HONEST_REFUSED = "honest_refused"
    CRASH = "crash"
    """The runner broke, took too long, or the program came to an end that it should not have come to."""


class DrillBreach(Frozen):
    fault: DrillFault
    what: str


class DrillResult(Frozen):
    """One hostile program and its honest twin, in one mode."""

    record: Literal["drill"] = "drill"
    mode: str
    """`full`, or which layer was left out."""
    kind: Literal["act", "cheat"]
    name: str
    about: str
    """What it tries, and what must hold."""
    ended: str
    breaches: tuple[DrillBreach, ...] = ()
    """None: it held."""
    seconds: float


class DrillReport(Frozen):
    """`kernelsmith doctor --sandbox`: what held here."""

    results: tuple[DrillResult, ...]
    not_run: dict[str, str] = {}
    """Modes that cannot be had here, and why."""

    @property
    def held(self) -> bool:
        return not any(result.breaches for result in self.results)

"""`kernelsmith doctor`: is everything here that a run needs, and what to do where it is not.

Each check is a function that returns findings; none raises. Versions are read from package metadata, so nothing heavy
is imported; what needs torch or Triton runs in a process of its own. Keys are reported as set or not set, never shown.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kernelsmith import targets, toolchains
from kernelsmith.diagnosis import Finding, Health
from kernelsmith.errors import KernelsmithError, UsageError

if TYPE_CHECKING:
    from kernelsmith.devices.state import CardState

TARGET = "cpu"
"""Whose file says which Triton is supported."""
SUPPORTED_TORCH = "2.11"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
FREE_BYTES = 2 << 30
PROBE_SECONDS = 120.0


def examine(runs: Path) -> Iterator[Finding]:
    """Every finding, as it is made; `runs` is the folder of the store."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _packages,
        _compiler,
        _cpu_backend,
        sandbox,
        _cards,
        _toolchains,
        lambda: _store(runs),
        _data_files,
        _keys,
    )
    for check in checks:
        yield from check()


def _python() -> Iterator[Finding]:
    yield Finding(name="python", health=Health.OK, detail=".".join(map(str, sys.version_info[:3])))


def _packages() -> Iterator[Finding]:
    for name in ("torch", "triton"):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name=name, health=Health.FAIL, detail="not installed", fix=f"pip install {name}")
            continue
        low, below = _supported_triton() if name == "triton" else (SUPPORTED_TORCH, "")
        if _numbers(low) <= _numbers(version) and not (below and _numbers(version) >= _numbers(below)):
            yield Finding(name=name, health=Health.OK, detail=version)
        else:
            wanted = f"{low} or newer" + (f", below {below}" if below else "")
            yield Finding(name=name, health=Health.WARN, detail=f"{version}, tested with {wanted}")
    for name in ("openai", "anthropic"):
        try:
            yield Finding(name=name, health=Health.OK, detail=importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            fix = f"pip install {name} (only needed for {name}: models)"
            yield Finding(name=name, health=Health.WARN, detail="not installed", fix=fix)


def _supported_triton() -> tuple[str, str]:
    """At least this, and below that; any where the target's file cannot be read, of which `_data_files` tells."""
    try:
        triton = targets.load(TARGET).triton
    except UsageError:
        return "0", ""
    return triton.at_least, triton.below


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _compiler() -> Iterator[Finding]:
    from kernelsmith.triton_cpu.run.build import CompilerMissingError, find_compiler

    try:
        yield Finding(name="C++ compiler", health=Health.OK, detail=find_compiler().version)
    except CompilerMissingError as error:
        yield Finding(name="C++ compiler", health=Health.FAIL, detail=error.message, fix=error.hint)


def _cpu_backend() -> Iterator[Finding]:
    program = "import triton.backends as b; print(' '.join(sorted(b.backends)))"
    try:
        said = subprocess.run(
            [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False, timeout=PROBE_SECONDS
        )
    except subprocess.TimeoutExpired:
        yield Finding(name="Triton backends", health=Health.FAIL, detail=f"no answer in {PROBE_SECONDS:g} s")
        return
    names = said.stdout.split()
    if said.returncode:
        last = (said.stderr.strip().splitlines() or ["no message"])[-1]
        yield Finding(name="Triton backends", health=Health.FAIL, detail=last, fix="reinstall triton")
    elif "cpu" in names:
        yield Finding(name="Triton backends", health=Health.OK, detail=", ".join(names))
    else:
        fix = "reinstall kernelsmith-tuner: its entry point `triton.backends: cpu` is missing"
        yield Finding(name="Triton backends", health=Health.FAIL, detail=", ".join(names) or "none", fix=fix)


def sandbox() -> Iterator[Finding]:
    """Which layers confine a candidate here."""
    from kernelsmith.sandbox.children.zygote import Zygote
    from kernelsmith.sandbox.confine.advice import advise

    try:
        with Zygote(preload=(), unsafe=True) as zygote:
            layers = zygote.layers
    except KernelsmithError as error:
        yield Finding(name="sandbox", health=Health.FAIL, detail=error.message, fix=error.hint)
        return
    advice = advise(layers)
    health = Health.FAIL if not layers.sound else Health.WARN if layers.missing else Health.OK
    detail = f"{', '.join(layers.held) or 'nothing'} held" + (f" for user {layers.uid}" if layers.other_uid else "")
    yield Finding(name="sandbox", health=health, detail=detail, fix="; ".join(one.change for one in advice))
    for one in advice:
        why = [note.partition(": ")[2] for note in layers.notes if note.startswith(one.layer)]
        detail = "missing" + (f" ({why[0]})" if why else "")
        yield Finding(name=f"sandbox: {one.layer}", health=health, detail=detail, fix=one.change)


def _toolchains() -> Iterator[Finding]:
    """Compilers for devices that are not here, each told of once."""
    told = set()
    for name in targets.available():
        try:
            target = targets.load(name)
        except UsageError:  # `_data_files` tells of it
            continue
        own = target.toolchain
        if own is None or not own.packages or target.offline is None or own.packages in told:
            continue
        told.add(own.packages)
        label = f"compiler for {target.family or name}"
        try:
            there = toolchains.installed(target)
        except UsageError as error:
            yield Finding(name=label, health=Health.FAIL, detail=error.message, fix=error.hint)
            continue
        detail = f"not installed, --without-device needs it: kernelsmith targets install {name}"
        yield Finding(name=label, health=Health.OK, detail=detail if there is None else there.words)


def _cards() -> Iterator[Finding]:
    """Every card that a target's file describes and that is here; one that several targets share is told of once."""
    from kernelsmith.devices.cards import withheld
    from kernelsmith.devices.state import look

    told: set[str] = set()
    absent = []
    for name in targets.available():
        try:
            target = targets.load(name)
        except UsageError:  # `_data_files` tells of it
            continue
        try:
            states = look(target)
        except KernelsmithError as error:
            yield Finding(name=name, health=Health.FAIL, detail=error.message, fix=error.hint)
            continue
        absent += [target.access.cards] if target.access.cards and not states else []
        for state in states:
            if state.card.name not in told:
                told.add(state.card.name)
                yield _card(target, state)
        if states and (names := withheld(target)):
            detail = f"{', '.join(names)} not passed on to kernels: no folder below /usr or /opt"
            yield Finding(
                name=f"{name} toolkit", health=Health.WARN, detail=detail, fix="unset it, or name such a folder"
            )
    if absent:
        yield Finding(name="cards", health=Health.OK, detail=f"none here: no {', '.join(dict.fromkeys(absent))}")


def _card(target: targets.Target, state: CardState) -> Finding:
    from kernelsmith.devices.health import health_of, numbers_match

    name, node = state.card.name, state.card.node
    if state.mark is not None:
        return Finding(name=name, health=Health.FAIL, detail=state.mark.words, fix=state.advice)
    if state.forbidden:
        detail = f"{', '.join(state.forbidden)}: this user may not use them"
        return Finding(name=name, health=Health.FAIL, detail=detail, fix=state.advice)
    if state.missing:
        return Finding(
            name=name, health=Health.WARN, detail=f"{node}, without {', '.join(state.missing)}", fix=state.advice
        )
    if state.plugin:
        detail = f"{node}, without the Python package {state.plugin} by which torch reaches it"
        return Finding(name=name, health=Health.FAIL, detail=detail, fix=state.advice)
    health = health_of(target)
    if health is None:
        watched = f"{target.query} is not installed" if target.query else "its driver cannot be asked"
        return Finding(name=name, health=Health.WARN, detail=f"{node}; {watched}: its memory is not watched")
    try:
        uses = health.uses(state.card)
    except KernelsmithError as error:
        return Finding(name=name, health=Health.FAIL, detail=f"{node}: {error.message}", fix=error.hint)
    held = sum(use.nbytes for use in uses) >> 20
    if not numbers_match():
        return Finding(
            name=name,
            health=Health.WARN,
            detail=f"{node}; the driver counts processes of the host: which memory of it is ours cannot be told here",
            fix="limits of its memory hold inside torch only; start the container in the host's pid namespace",
        )
    return Finding(name=name, health=Health.OK, detail=f"{node}, {len(uses)} processes hold {held} MiB of it")


def _store(runs: Path) -> Iterator[Finding]:
    try:
        runs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=runs):
            pass
    except OSError as error:
        fix = "choose another folder with --runs DIR or KERNELSMITH_RUNS"
        yield Finding(name="runs folder", health=Health.FAIL, detail=f"{runs}: {error.strerror}", fix=fix)
        return
    free = shutil.disk_usage(runs).free
    detail = f"{runs}, {free / 2**30:.1f} GiB free"
    if free < FREE_BYTES:
        yield Finding(name="runs folder", health=Health.WARN, detail=detail, fix="free some disk before a long run")
    else:
        yield Finding(name="runs folder", health=Health.OK, detail=detail)


def _data_files() -> Iterator[Finding]:
    from kernelsmith import resources

    kinds: tuple[resources.Kind, ...] = ("prompts", "targets")
    for kind in kinds:
        found = resources.folders(kind)
        if not found:
            fix = "reinstall kernelsmith-tuner: the folder is part of it"
            yield Finding(name=kind, health=Health.FAIL, detail="no folder found", fix=fix)
        elif kind == "targets" and (wrong := _unreadable_target()) is not None:
            yield Finding(name=kind, health=Health.FAIL, detail=wrong.message, fix=wrong.hint)
        else:
            yield Finding(name=kind, health=Health.OK, detail=", ".join(str(folder) for folder in found))


def _unreadable_target() -> UsageError | None:
    for name in targets.available():
        try:
            targets.load(name)
        except UsageError as error:
            return error
    return None


def _keys() -> Iterator[Finding]:
    for key in KEYS:
        detail = "set" if os.environ.get(key) else "not set (only needed for paid models)"
        yield Finding(name=key, health=Health.OK, detail=detail)

"""Settings: flag > `KERNELSMITH_*` > `./kernelsmith.toml` or `[tool.kernelsmith]` > user file > default.

Invariant: this is the only module that reads the environment for settings, and API keys are never settings (the SDKs
take them from the environment themselves). Unknown keys in a file are errors that name the file and the key. Called
once per command; the result is frozen.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

from pydantic import Field, ValidationError, field_validator

from kernelsmith import tolerances
from kernelsmith.base import Frozen
from kernelsmith.errors import UsageError
from kernelsmith.files import read_toml
from kernelsmith.proposal import MOST_USD, Budget, Usd
from kernelsmith.tolerances import Policy

PREFIX = "KERNELSMITH_"
DEFAULT_SECONDS = 600.0
"""Time limit of a run that was given no limit at all."""

Value = object
"""A setting before it is validated: text from the environment, a TOML value, or what a flag parsed to."""


def seconds(text: str) -> float:
    """A duration as people write it: `90`, `90s`, `3m`, `1h30m`."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    cleaned = text.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", cleaned)
    if parts and "".join(n + u for n, u in parts) == cleaned:
        total = sum(float(n) * units[u] for n, u in parts)
    elif re.fullmatch(r"\d+(\.\d+)?", cleaned):
        total = float(cleaned)
    else:
        raise ValueError(f"`{text}` is not a duration; write 90s, 3m or 1h30m")
    if total <= 0:
        raise ValueError("a duration is above 0")
    return total


_LIMITS = ("max_trials", "max_tokens", "max_usd", "max_time")


class Settings(Frozen):
    """Every setting, resolved; none is optional unless absence means something."""

    device: str = Field(default="cpu", min_length=1)
    """A target's name or a torch device type."""
    model: tuple[str, ...] = Field(default=("offline",), min_length=1)
    """Specs of the proposers, asked in turn."""
    runs: Path = Path("runs")
    """Folder of the store."""
    max_trials: int | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_usd: Usd | None = Field(default=None, gt=0, le=MOST_USD)
    max_time: float | None = Field(default=None, gt=0)
    """Seconds."""
    goal: float | None = Field(default=None, gt=0)
    width: int = Field(default=2, ge=1, le=64)
    """Trials in flight: models that are asked, and kernels that are judged or wait for it. How many are judged at once
    is up to the machine (evaluate/room/admission.py)."""
    prompts: Path | None = None
    """Folder of prompt files that replace the packaged ones."""
    targets: Path | None = None
    """Folder of target files that replace the packaged ones."""
    tolerance: str | None = Field(default=None, min_length=1)
    """Name of the tolerance policy that answers are held to, instead of the measured bound."""
    tolerances: tuple[Policy, ...] = ()
    """The team's own policies, as tables [tolerances.NAME]."""
    unsafe_no_sandbox: bool = False
    """Run candidates though this machine cannot confine them. Never read from a file in the current folder."""

    @field_validator("model", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("max_time", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> Any:
        return seconds(value) if isinstance(value, str) else value

    @field_validator("max_usd", mode="before")
    @classmethod
    def _exact(cls, value: Any) -> Any:
        """0.1 in a TOML file means a tenth, not the nearest binary fraction."""
        try:
            return Decimal(str(value)) if isinstance(value, float) else value
        except InvalidOperation as error:
            raise ValueError(f"`{value}` is not an amount") from error

    def budget(self) -> Budget:
        """The limits of a run; with none given, ten minutes."""
        limited = any(getattr(self, name) is not None for name in _LIMITS)
        return Budget(
            max_trials=self.max_trials,
            max_tokens=self.max_tokens,
            max_usd=self.max_usd,
            max_seconds=self.max_time if limited else DEFAULT_SECONDS,
            goal=self.goal,
        )


def program_version() -> str:
    """Of the installed distribution; `source` when run from a tree that is not installed."""
    return _version("kernelsmith-tuner", "source")


def installed_versions() -> dict[str, str]:
    """What a verdict depends on: this program, the interpreter and the toolchain, by name."""
    found = {"kernelsmith": program_version(), "python": platform.python_version()}
    return found | {name: _version(name, "absent") for name in ("torch", "triton")}


def _version(distribution: str, otherwise: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return otherwise


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where this user's programs keep what is neither a setting nor a cache."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_STATE_HOME")
    return Path(base or Path(environ.get("HOME", "~")).expanduser() / ".local" / "state") / "kernelsmith"


def user_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where this user's settings are (XDG Base Directory Specification)."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CONFIG_HOME")
    return Path(base or Path(environ.get("HOME", "~")).expanduser() / ".config") / "kernelsmith"


_KEYS = tuple(Settings.model_fields)
_USER_ONLY = ("unsafe_no_sandbox",)


def load(flags: Mapping[str, Value], *, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Resolve all sources; a flag whose value is None or an empty sequence was not given.

    Raises UsageError naming the source of a bad value.
    """
    environ = os.environ if environ is None else environ
    given = {k: v for k, v in flags.items() if v is not None and v != [] and v != ()}
    return _resolved(
        *_files(cwd or Path.cwd(), environ), ("the environment", _environment(environ)), ("the command line", given)
    )


def limits(flags: Mapping[str, Value]) -> Budget:
    """The limits that the command line itself gives, and no others: what changes on resume."""
    given = {name: flags[name] for name in (*_LIMITS, "goal") if flags.get(name) is not None}
    settings = _resolved(("the command line", given))
    return settings.budget().model_copy(update={"max_seconds": settings.max_time})


def _resolved(*layers: tuple[str, Mapping[str, Value]]) -> Settings:
    """Settings from layers, each with the words for where it is from; a later one overrides."""
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source, layer in layers:
        if isinstance(nearer := layer.get("tolerances"), tuple) and isinstance(values.get("tolerances"), tuple):
            layer = {**layer, "tolerances": tolerances.merged(values["tolerances"], nearer)}
        values |= layer
        origin |= dict.fromkeys(layer, source)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        given = values.get(key)
        raise UsageError(
            f"{_spelled(key, origin.get(key, ''))} = {given!r} in {origin.get(key, 'the settings')}: "
            f"{first['msg'].removeprefix('Value error, ')}",
            f"give {_spelled(key, '')} another value",
        ) from error


def tracebacks_wanted(arguments: Sequence[str]) -> bool:
    """`--verbose` or KERNELSMITH_RAISE=1; asked for where settings may be what failed."""
    return "--verbose" in arguments or "-v" in arguments or os.environ.get(PREFIX + "RAISE", "") not in ("", "0")


def _spelled(key: str, source: str) -> str:
    dashed = key.replace("_", "-")
    return PREFIX + key.upper() if source == "the environment" else dashed if source else f"--{dashed}"


def _environment(environ: Mapping[str, str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name in Settings.model_fields.keys() - {"tolerances"}:
        text = environ.get(PREFIX + name.upper())
        if text:
            found[name] = tuple(text.splitlines()) if name == "model" else text
    return found


def _files(cwd: Path, environ: Mapping[str, str]) -> list[tuple[str, dict[str, Value]]]:
    """User file first, so that the project's file overrides it."""
    layers = []
    user = user_folder(environ) / "config.toml"
    if user.is_file():
        layers.append((str(user), _read(user, (), trusted=True)))
    project, pyproject = cwd / "kernelsmith.toml", cwd / "pyproject.toml"
    if project.is_file():
        layers.append((str(project), _read(project, (), trusted=False)))
    elif pyproject.is_file():
        layers.append((str(pyproject), _read(pyproject, ("tool", "kernelsmith"), trusted=False)))
    return layers


def harmless(spec: str) -> bool:
    """Whether asking this model neither runs a program nor sends a key to an address of the spec's choice: what may be
    done at the word of a file that came from anywhere."""
    text = unquote_plus(spec)
    return not text.startswith("command:") and "@https:" not in text and "key_env" not in text


def _check_harmless(path: Path, specs: Any) -> None:
    """A folder cloned from somewhere may not run a program, nor have a key sent to an address of its choice."""
    for spec in specs if isinstance(specs, list | tuple) else ():
        if not harmless(str(spec)):
            raise UsageError(
                f"{path}: the model {str(spec)!r} would run a program or send a key to an address; "
                "no file in the current folder may ask for that",
                f"name it with --model, in {PREFIX}MODEL or in the user file",
            )


def _read(path: Path, table: tuple[str, ...], *, trusted: bool) -> dict[str, Value]:
    content: Any = read_toml(path)
    for name in table:
        content = content.get(name, {}) if isinstance(content, dict) else None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: {'.'.join(table)} is no table", "mend the file or move it away")
    values: dict[str, Value] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in _KEYS:
            known = ", ".join(n.replace("_", "-") for n in _KEYS)
            raise UsageError(f"{path}: unknown key `{key}`", f"known keys: {known}")
        if name in _USER_ONLY and not trusted:
            raise UsageError(
                f"{path}: `{key}` may not be set by a file in the current folder",
                f"use --{name.replace('_', '-')}, {PREFIX}{name.upper()} or the user file",
            )
        if name == "tolerances":
            value = tolerances.read(value, str(path))
        if name == "model" and not trusted:
            _check_harmless(path, (value,) if isinstance(value, str) else value)
        values[name] = path.parent / str(value) if name in ("runs", "prompts", "targets") else value
    return values

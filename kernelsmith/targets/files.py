"""Reading target files: a device's own, merged key by key over its family's, each fact with its source.

Invariant: what `load` returns has a source for every fact, stated in the very file that states the fact; whatever is
wrong is a UsageError that names file and key and says what to do.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kernelsmith import files, resources
from kernelsmith.errors import UsageError
from kernelsmith.targets.schema import Target

_OURS = frozenset({"name", "family", "offline", "summary", "module", "knowledge", "notes", "sources", "lint"})
"""Keys that say what kernelsmith makes of the device, not what it is; the rules of a lint bring their own sources."""


@dataclass(frozen=True)
class _File:
    """One file as it was read: plain data without `sources`, and those by the dotted keys that it gives them."""

    path: Path
    data: dict[str, Any]
    said: dict[str, str]


def available(flag: Path | None = None) -> dict[str, Path]:
    """Target files by name, in order."""
    return {Path(name).stem: path for name, path in resources.matching("targets", "*.toml", flag).items()}


def load(name: str, flag: Path | None = None) -> Target:
    """Read one target by name; raises UsageError with the file and the key that is wrong."""
    found = available(flag)
    if name not in found:
        raise _unknown("target", name, list(found))
    chain = _chain(found[name], flag)
    merged: dict[str, Any] = {}
    for one in reversed(chain):
        merged = _merge(merged, one.data)
    if len(chain) > 1:
        merged["family"] = chain[-1].path.stem
    try:
        target = Target.model_validate(merged)
    except ValidationError as error:
        raise _explained(error.errors()[0], chain) from error
    path = chain[0].path
    if target.name != name:
        raise UsageError(f"{path}: name is {target.name!r}", f"a target's file is called after it: {target.name}.toml")
    sources = {key: source for one in reversed(chain) for key, source in _sources(one).items()}
    return target.model_copy(update={"sources": sources})


def fitting(device: str, flag: Path | None = None) -> list[Target]:
    """The targets that a word may mean: a name, a torch device type, a family or a Triton backend."""
    if device in available(flag):
        return [load(device, flag)]
    return [
        target
        for target in (load(name, flag) for name in available(flag))
        if device in (target.torch_device, target.family, target.triton.backend)
    ]


def resolve(device: str, flag: Path | None = None) -> Target:
    """The one target that `device` means; raises UsageError where it is none or several."""
    found = fitting(device, flag)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(target.name for target in found)
        raise UsageError(f"--device {device} can be any of {names}", "name one of them")
    raise _unknown("device", device, list(available(flag)))


def _unknown(kind: str, name: str, known: list[str]) -> UsageError:
    near = difflib.get_close_matches(name.lower(), known, n=1)
    meant = f", did you mean {near[0]}?" if near else ""
    return UsageError(f"unknown {kind} {name!r}{meant}", f"{kind}s: {', '.join(known) or 'none found'}")


# ---------------------------------------------------------------- families


def _chain(path: Path, flag: Path | None) -> list[_File]:
    """A target's file, its family's, and so on."""
    chain = [_read(path)]
    while (family := chain[-1].data.get("family")) is not None:
        named = chain[-1].path
        if not isinstance(family, str) or not family.replace("-", "").isalnum():
            raise UsageError(f"{named}: family: {family!r} is no name", 'write family = "nvidia", for example')
        found = resources.find("targets", f"families/{family}.toml", flag)
        if found is None:
            known = ", ".join(Path(one).stem for one in resources.matching("targets", "families/*.toml", flag))
            raise UsageError(f"{named}: family: no file families/{family}.toml", f"families: {known or 'none found'}")
        if any(found == one.path for one in chain):
            words = " -> ".join(one.path.name for one in chain) + f" -> {found.name}"
            raise UsageError(f"{named}: family: goes round in a circle: {words}", "a family's own family is another")
        chain.append(_read(found))
    return chain


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


# ---------------------------------------------------------------- sources


def _read(path: Path) -> _File:
    """A file's data and what it says of sources."""
    data = files.read_toml(path)
    given = data.pop("sources", {})
    said = dict(_leaves(given)) if isinstance(given, dict) else {"": given}
    for key, source in said.items():
        if not isinstance(source, str) or not source.strip():
            raise UsageError(f"{path}: sources.{key}: not a text", "say where the fact was read: a document, a file")
    return _File(path, data, said)


def _sources(one: _File) -> dict[str, str]:
    """The source of each fact of one file: of its own, else of its table. Raises UsageError for a fact without one."""
    found, used = {}, set()
    for key, value in _leaves(one.data):
        parts = key.split(".")
        if parts[0] in _OURS or (parts[0] == "peaks" and value == "measure"):
            continue
        levels = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        by = next((level for level in levels if level in one.said), None)
        if by is None:
            table = f' (or "{parts[0]}" = ..., for its whole table)' if len(parts) > 1 else ""
            raise UsageError(
                f"{one.path}: {key}: no source",
                f'add "{key}" = "where it was read"{table} to [sources], or leave the fact out',
            )
        used.add(by)
        found[key] = one.said[by]
    if stray := [key for key in one.said if key not in used]:
        raise UsageError(
            f"{one.path}: sources.{stray[0]}: the file states no such fact", "remove it, or correct its key"
        )
    return found


def _leaves(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values, without the tables themselves."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


# ---------------------------------------------------------------- errors


def _explained(error: ErrorDetails, chain: list[_File]) -> UsageError:
    """What is wrong, in the file that says it, with the keys that there are."""
    where: list[str] = []
    for part in map(str, error["loc"]):  # its end may name a member of a union instead of a key
        if not any(_has(one.data, [*where, part]) for one in chain) and error["type"] != "missing":
            break
        where.append(part)
    key = ".".join(where)
    path = next((one.path for one in chain if _has(one.data, where)), chain[0].path)
    known = _known(where[:-1])
    if error["type"] == "extra_forbidden":
        stem = where[-1].rsplit("_", 1)[0]
        near = [one for one in known if one.rsplit("_", 1)[0] == stem] or difflib.get_close_matches(where[-1], known)
        meant = f", did you mean {near[0]}?" if near else ""
        return UsageError(f"{path}: {key}: unknown key{meant}", f"keys here: {', '.join(known)}")
    what = error["msg"].removeprefix("Value error, ")
    if key.endswith("_bytes") and error["type"] == "greater_than_equal":
        what += ": the key's name is its unit, and this is no number of bytes"
    return UsageError(f"{path}: {key or 'the file'}: {what}", f"keys here: {', '.join(known)}")


def _has(data: Any, where: list[str]) -> bool:
    for part in where:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return bool(where)


def _known(where: list[str]) -> list[str]:
    """The keys of the table at a dotted key."""
    model: type[BaseModel] = Target
    for part in where:
        if (field := model.model_fields.get(part)) is None:  # a rule's name: its table is known already
            continue
        inside = (field.annotation, *typing.get_args(field.annotation))
        model = next((one for one in inside if isinstance(one, type) and issubclass(one, BaseModel)), model)
    return list(model.model_fields)

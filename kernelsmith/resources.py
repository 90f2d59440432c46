"""Where prompt and target files are found: the folder of a flag, then ./, then what is shipped.

Invariant: a file found earlier hides one of the same name found later, so that a project can change one prompt and keep
the rest. Called by `prompts`, `targets` and the `offline` proposer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kernelsmith import files
from kernelsmith.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent
_SHIPPED = (_PACKAGE / "_data", _PACKAGE.parent)
"""Inside the wheel, and in a checkout."""


Kind = Literal["prompts", "targets"]
"""A family of files; also the name of its folder and of its flag."""


def folders(kind: Kind, flag: Path | None = None) -> tuple[Path, ...]:
    """The folders to look into, first match wins. `flag` is a folder the user named; it must exist."""
    if flag is not None and not flag.is_dir():
        raise UsageError(f"--{kind} {str(flag)!r} is not a folder", f"name a folder of {kind} files, or leave it out")
    shipped = [root / kind for root in _SHIPPED if (root / kind).is_dir()][:1]
    candidates = [*([flag] if flag is not None else []), Path(kind), *shipped]
    return tuple(folder for folder in candidates if folder.is_dir())


def folder(kind: Kind, flag: Path | None = None) -> Path:
    """The first of the folders: where files are taken from unless they are only in a later one."""
    found = folders(kind, flag)
    if not found:
        raise UsageError(f"no folder of {kind} files", "reinstall kernelsmith-tuner")
    return found[0]


def find(kind: Kind, name: str, flag: Path | None = None) -> Path | None:
    """The file of this name (a relative path such as `knowledge/cpu.md`); None if there is none."""
    return next((folder / name for folder in folders(kind, flag) if (folder / name).is_file()), None)


def read(kind: Kind, name: str, flag: Path | None = None) -> str:
    """The text of a file that must be there."""
    path = find(kind, name, flag)
    if path is None:
        looked = ", ".join(str(folder) for folder in folders(kind, flag)) or "no folder"
        raise UsageError(f"no file {name!r} among the {kind} (looked in {looked})", "reinstall kernelsmith-tuner")
    return read_file(path)


def read_file(path: Path) -> str:
    """A text file's content; errors name it."""
    try:
        return files.read_text(path)
    except UsageError as error:
        raise UsageError(
            f"cannot read {error.message}", "mend the file, or remove it to use what is shipped"
        ) from error


def matching(kind: Kind, pattern: str, flag: Path | None = None) -> dict[str, Path]:
    """Every file that matches a glob, by its path relative to its folder; sorted by that."""
    found: dict[str, Path] = {}
    for folder in folders(kind, flag):
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                found.setdefault(path.relative_to(folder).as_posix(), path)
    return dict(sorted(found.items()))

"""Cards that were given up, as files that outlive the judge: a run that comes later must not hang on them again.

Invariant: a mark is of this boot, in a folder where only this user writes, and names the process that did not end; the
judge takes it away once the card has answered a probe. Judges write them, `doctor` and `targets list` show them.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from kernelsmith.errors import InfrastructureError
from kernelsmith.model import DeviceMark


def own_folder() -> Path:
    """A folder of this user's own for locks and marks; outlives the process, not the machine."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "kernelsmith" if base else Path(tempfile.gettempdir()) / f"kernelsmith-{os.getuid()}"
    hint = "remove it, or set XDG_RUNTIME_DIR or TMPDIR to a folder of your own"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.lstat()  # in a folder that all may write to, somebody else may have put a link there
    except OSError as error:
        raise InfrastructureError(f"{folder}: {error.strerror}", hint) from error
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise InfrastructureError(f"{folder} is no folder that only this user may use", hint)
    return folder


def file_of(device: str, kind: str) -> Path:
    """Where something about a device is kept: its lock, its mark."""
    return own_folder() / f"device-{device.replace('/', '_').replace(':', '-')}.{kind}"


def new(device: str, why: str, *, pid: int | None = None, candidate: str = "") -> DeviceMark:
    """What there is to say now about a device that must be given up because of process `pid`."""
    born = None if pid is None else _born(pid)
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return DeviceMark(device=device, since=since, why=why, boot=_boot(), pid=pid, born=born, candidate=candidate)


def write(mark: DeviceMark) -> DeviceMark:
    """Mark the device bad; the mark that is there already stays, and is returned."""
    if (earlier := read(mark.device)) is not None:
        return earlier
    path = file_of(mark.device, "bad")
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(mark.model_dump_json(indent=2))
    fresh.replace(path)
    return mark


def read(device: str) -> DeviceMark | None:
    """The device's mark, unless it is of an earlier boot, which the reset that comes with one has mended."""
    path = file_of(device, "bad")
    try:
        mark = DeviceMark.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise InfrastructureError(f"{path} cannot be read: {error}", f"remove {path}") from error
    return mark if mark.boot == _boot() else None


def clear(device: str) -> None:
    """The device is well again."""
    file_of(device, "bad").unlink(missing_ok=True)


def held(mark: DeviceMark) -> bool:
    """Whether the process that made the device be given up is still there."""
    return mark.pid is not None and mark.born is not None and _born(mark.pid) == mark.born


def _born(pid: int) -> int | None:
    """When a process began, in ticks since boot: with its number, an identity (proc(5), field 22 of `stat`)."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

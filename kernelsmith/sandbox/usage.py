"""What a process tree uses, seen from outside through /proc, and how to clear away what it leaves.

Invariant: a process or file that vanishes meanwhile is simply not counted; whatever else keeps us from looking raises
OSError, for a limit that nobody can see is none. watch.py samples children with it; the server finds what a child has
left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DEEPEST = 64  # folders inside folders; compilers' caches use a handful
_GONE = (FileNotFoundError, ProcessLookupError)
_FORBIDDEN = PermissionError
"""Of a process whose memory has gone already the files belong to root (proc(5)). Living ones cannot hide: children may
not make themselves undumpable, and where Landlock holds they execute nothing that they wrote."""
_PIPE_BYTES = 64 << 10  # what one holds at most: 16 pages, which children cannot raise


def descendants(pid: int) -> list[int]:
    """Numbers of all processes below `pid`, which is not among them."""
    found: list[int] = []
    unseen = [pid]
    while unseen:
        parent = unseen.pop()
        children: list[int] = []
        with contextlib.suppress(*_GONE):
            for task in Path(f"/proc/{parent}/task").iterdir():
                children += map(int, (task / "children").read_bytes().split())
        found += children
        unseen += children
    return found


def group_of(pid: int) -> int | None:
    """Process group of `pid`, None once it is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def alive(pid: int) -> bool:
    """Whether a thread of the process still runs or sleeps: one that has ended holds no file and no device."""
    with contextlib.suppress(*_GONE):
        return any(_state(task) not in "ZX" for task in Path(f"/proc/{pid}/task").iterdir())
    return False


def _state(task: Path) -> str:
    """State of a thread as proc(5) spells it, X once it is gone."""
    with contextlib.suppress(*_GONE):
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def tasks(pids: list[int]) -> int:
    """Threads of these processes together."""
    count = 0
    for pid in pids:
        with contextlib.suppress(*_GONE):
            count += sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    return count


@dataclass(frozen=True)
class Mapped:
    """Bytes that processes have in their address spaces."""

    private: int
    """Anonymous and huge pages, swapped ones, page tables."""
    shared: int
    """Arenas, files of a tmpfs, shared anonymous memory."""


def mapped(pids: list[int]) -> Mapped:
    """An upper bound, for forks count the pages that they share once each."""
    own, pages = (b"RssAnon", b"VmSwap", b"VmPTE", b"HugetlbPages"), (b"RssShmem",)
    return Mapped(_kilobytes(pids, "status", own), _kilobytes(pids, "status", pages))


def proportional(pids: list[int]) -> Mapped | None:
    """The same with shared pages divided among their users: exact, some 40 times slower; None where it is forbidden."""
    own, pages = (b"Pss_Anon", b"SwapPss", b"Private_Hugetlb", b"Shared_Hugetlb"), (b"Pss_Shmem",)
    if not (private := _kilobytes(pids, "smaps_rollup", own)):
        return None
    return Mapped(private + _kilobytes(pids, "status", (b"VmPTE",)), _kilobytes(pids, "smaps_rollup", pages))


def _kilobytes(pids: list[int], file: str, names: tuple[bytes, ...]) -> int:
    """Sum of these lines of a file of each process, in bytes."""
    total = 0
    for pid in pids:
        with contextlib.suppress(*_GONE, _FORBIDDEN):
            for line in Path(f"/proc/{pid}/{file}").read_bytes().splitlines():
                if line.startswith(names):
                    total += int(line.split()[1]) << 10
    return total


@dataclass(frozen=True)
class Held:
    """Bytes that processes keep alive by open descriptors alone."""

    pipes: int
    """What their pipes can hold."""
    unlinked: int
    """Files without a name on the given device."""
    arenas: int
    """Other files without a name: memory files."""


def held(pids: list[int], device: int, most: int) -> Held:
    """Stops looking where it has found more than `most` bytes: whoever opens thousands of files pays for that."""
    seen: set[tuple[int, int]] = set()
    pipes = unlinked = arenas = 0
    for status in (status for pid in pids for status in _descriptors(pid)):
        if (key := (status.st_dev, status.st_ino)) in seen:
            continue
        seen.add(key)
        if stat.S_ISFIFO(status.st_mode):
            pipes += _PIPE_BYTES
        elif stat.S_ISREG(status.st_mode) and not status.st_nlink:
            if status.st_dev == device:
                unlinked += status.st_blocks * 512
            else:
                arenas += status.st_blocks * 512
        if pipes + unlinked + arenas > most:
            break
    return Held(pipes, unlinked, arenas)


def _descriptors(pid: int) -> Iterator[os.stat_result]:
    with contextlib.suppress(*_GONE, _FORBIDDEN), os.scandir(f"/proc/{pid}/fd") as found:
        for entry in found:
            with contextlib.suppress(*_GONE, _FORBIDDEN):
                yield entry.stat()


def memory(pids: list[int], held: Held, most: int, *, inherited: int = 0) -> int:
    """Bytes of these processes without files that have a name, beyond what they inherited; exact where a cheaper upper
    bound is more than `most`."""

    def total(mapped: Mapped) -> int:
        # an arena counts once, whether it is mapped, held by a descriptor, or both
        return mapped.private - inherited + max(mapped.shared, held.arenas) + held.pipes

    used = total(mapped(pids))
    if used > most and len(pids) > 1 and (exact := proportional(pids)) is not None:
        return total(exact)  # each of the forks had counted the pages that they share
    return used


def files_below(folder: str, most_bytes: int, most_entries: int) -> int | None:
    """Bytes of the files below `folder`, which a hostile process may be changing; None where they are more than that,
    nest so deep that looking on would take our time instead of its own, or are hidden from us. Links are not followed.
    """
    nbytes = entries = 0
    unseen = [(folder, 0)]
    while unseen:
        path, depth = unseen.pop()
        try:
            with os.scandir(path) as found:
                for entry in found:
                    entries += 1
                    with contextlib.suppress(*_GONE):
                        nbytes += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            unseen.append((entry.path, depth + 1))
                    if nbytes > most_bytes or entries > most_entries or depth > _DEEPEST:
                        return None
        except OSError as error:
            if error.errno in (errno.EACCES, errno.ENAMETOOLONG):
                return None
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # gone, or something else by now
                raise
    return nbytes


def kills_for_memory() -> int:
    """Processes that the kernel has killed since it started because memory ran out; 0 where it does not tell."""
    with contextlib.suppress(*_GONE, _FORBIDDEN):
        for line in Path("/proc/vmstat").read_bytes().splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return 0


def remove_tree(folder: str) -> None:
    """Remove a folder that a hostile process filled: any depth, any modes, no links followed. Warns where it stays."""
    if not _runs("rm", "-rf", "--", folder):
        _runs("chmod", "-R", "u+rwX", "--", folder)
        if not _runs("rm", "-rf", "--", folder):
            warnings.warn(f"{folder} could not be removed", stacklevel=2)


def _runs(*command: str) -> bool:
    """Whether one of the system's own programs did its work; it is given nothing of the user's, PATH included."""
    try:
        done = subprocess.run(command, stderr=subprocess.DEVNULL, check=False, env={"PATH": os.defpath})
    except OSError:  # no process or descriptor left
        return False
    return not done.returncode

"""System calls that the standard library lacks, through ctypes; each raises OSError with the call's name.

Invariant: this module holds calls and their flags, no policy. The flags are those of include/uapi/linux/{sched,mount,
prctl}.h.
The server and the confined fork use it; the judge only to open pidfds.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

from kernelsmith.sandbox.confine import syscalls

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
_MNT_DETACH = 2
_MOUNT_ATTR_RDONLY = 0x1
_MOUNT_ATTR_NOSUID = 0x2
_AT_RECURSIVE = 0x8000
_AT_FDCWD = -100

_MADV_COLLAPSE = 25  # Linux 6.1

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_THP_DISABLE = 41
_CAPABILITY_VERSION_3 = 0x20080522

_LIBC = ctypes.CDLL(None, use_errno=True)
_Argument = int | bytes | None


def syscall(name: str, *arguments: _Argument) -> int:
    """A call that libc has no function for; integers are passed as C longs."""
    column = syscalls.machine_index()
    number = None if column is None else syscalls.NUMBERS[name][column]
    if number is None:
        raise OSError(errno.ENOSYS, f"{name}: no system call number for {platform.machine()}")
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(name, _LIBC.syscall(ctypes.c_long(number), *wide))


def unshare(flags: int) -> None:
    """Leave namespaces for new ones of our own (`os.unshare` came with Python 3.12)."""
    _checked("unshare", _LIBC.unshare(flags))


def setns(fd: int, kind: int) -> None:
    """Enter the namespace behind `fd`."""
    _checked("setns", _LIBC.setns(fd, kind))


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """mount(2)."""
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags))
    _checked(f"mount {kind or source} on {target}", _LIBC.mount(*arguments, options.encode() or None))


def mount_readonly(path: str) -> None:
    """Make a mount and all below it read-only and deaf to setuid bits; ENOSYS before Linux 5.12."""
    attributes = struct.pack("=QQQQ", _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0, 0, 0)
    syscall("mount_setattr", _AT_FDCWD, path.encode(), _AT_RECURSIVE, attributes, len(attributes))


def enter_root(path: str) -> None:
    """Make `path`, a mount point, the root of this mount namespace and forget the old one."""
    os.chdir(path)
    syscall("pivot_root", b".", b".")
    _checked("umount2", _LIBC.umount2(b".", _MNT_DETACH))
    os.chdir("/")


def collapse_memory() -> None:
    """Gather this process's private memory into huge pages where the kernel can: a fork copies one entry for each page,
    so that 150 MiB cost it 1 ms instead of 5. Pages that a fork writes are still copied singly."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, _, _, inode, *name = line.split()
        if access == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(part, 16) for part in span.split("-"))
            # Best effort: an older kernel or a fragmented memory only means slower forks.
            _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_COLLAPSE)


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that forked it ends; one that had ended before is not noticed."""
    _prctl(_PR_SET_PDEATHSIG, 9)


def set_dumpable() -> None:
    """Own /proc/self again after a change of user."""
    _prctl(_PR_SET_DUMPABLE, 1)


def allow_huge_pages() -> None:
    """Whatever a parent process decided for its children."""
    _prctl(_PR_SET_THP_DISABLE, 0)


def become_subreaper() -> None:
    """Orphans among our descendants become our children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def no_new_privileges() -> None:
    """No setuid program will raise us again; needed for Landlock and seccomp as an ordinary user."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def load_seccomp(program: bytes) -> None:
    """Install a BPF program of 8-byte instructions on this thread and all it starts."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    _checked("seccomp", _LIBC.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), header, 0, 0))


def drop_capabilities() -> None:
    """Give up every capability in this user namespace."""
    _checked("capset", _LIBC.capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)))


def _prctl(option: int, value: int) -> None:
    _checked(f"prctl {option}", _LIBC.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3))


def _checked(name: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result

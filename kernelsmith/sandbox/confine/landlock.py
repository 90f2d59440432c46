"""Landlock: which files a process may touch, from here on and for ever, without root or namespaces.

Invariant: a right of the newest known ABI that this kernel handles is denied unless a rule grants it below that path.
What Landlock does not govern (chmod, utime, xattr, stat, unix sockets by path below ABI 9) is the business of
read-only mounts and of seccomp. Bits and structures: include/uapi/linux/landlock.h. Used by confine.py.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable

from kernelsmith.sandbox.confine import linux

NEWEST = 7
"""The latest version that is known here; what later ones add is not used."""
TRUNCATION_ABI = 3
"""The first version that governs truncation (Linux 6.2)."""
SCOPED_ABI = 6
"""The first version that keeps signals inside (Linux 6.12)."""
_EXECUTE, _WRITE, _READ, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # number of file-system right bits; 16 from ABI 5 on
_TCP_BIND_AND_CONNECT = 0b11  # ABI 4
_SCOPE_SOCKETS_AND_SIGNALS = 0b11  # ABI 6
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1


def abi() -> int:
    """The kernel's Landlock version, 0 without."""
    try:
        return linux.syscall("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def restrict(abi: int, *, read: Iterable[str], write: Iterable[str], devices: Iterable[str]) -> None:
    """Allow reading and executing below `read`, use of `devices`, and below `write` everything but device nodes and
    starting programs: whoever starts one that nobody may read is hidden from its watcher. No more than that.

    Also no TCP, and no signals or abstract sockets to anyone outside, as far as `abi` goes. Paths that do not exist
    are passed over. Needs no_new_privileges() first.
    """
    handled = (1 << _RIGHTS_BY_ABI.get(abi, 16)) - 1
    attributes = struct.pack("=QQQ", handled, _TCP_BIND_AND_CONNECT, _SCOPE_SOCKETS_AND_SIGNALS)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = linux.syscall("landlock_create_ruleset", attributes[:size], size, 0)
    groups = (
        (read, _READ | _READ_DIR | _EXECUTE),
        (write, handled & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | _IOCTL)),
        (devices, _READ | _WRITE | _IOCTL),
    )
    for paths, rights in groups:
        for path in paths:
            _allow(ruleset, path, rights & handled)
    linux.syscall("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # absent or out of reach: nothing to allow
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS
        linux.syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)

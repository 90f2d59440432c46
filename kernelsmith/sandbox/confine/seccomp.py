"""The system call filter: an allow-list by number, with conditions on a few arguments.

Invariant: a compiler, Python and several threads go on working under it, while network, namespaces, mounts, tracing,
uncounted memory and changes to other processes are refused with EPERM. A call that syscalls.py does not know does not
exist (ENOSYS, on which libraries fall back to an older call), so that a later kernel opens nothing. ioctl alone stays a
deny-list: drivers of accelerators define requests of their own. Instruction and return codes: linux/{bpf_common,
seccomp}.h; requests and commands: asm-generic/{ioctls,fcntl}.h, linux/{fs,fsverity}.h. confine.py loads it.
"""

from __future__ import annotations

import errno
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from kernelsmith.sandbox.confine import syscalls

_ARCHITECTURES = (0xC000003E, 0xC00000B7)  # AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64
_CLONE_NAMESPACES = 0x7E020000
_SHARED_ANONYMOUS = 0x21  # MAP_SHARED | MAP_ANONYMOUS
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_O_ACCMODE, _O_TRUNC = 3, 0x200
_SESSIONS = ("setsid", "setpgid")
_SIGNALS = ("kill", "tkill", "tgkill")
_QUEUED_SIGNALS = ("rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_OF_A_JUDGE = (
    *("mount", "umount2", "pivot_root", "mount_setattr", "unshare", "setns", "capset", "seccomp"),
    *("memfd_create", "socketpair", "setpriority", "sched_setscheduler", "sched_setattr", "sched_setparam"),
)
# Not: leases and notices on files of others, owners of signals that leave the sandbox, larger pipes.
_FCNTL_COMMANDS = (
    *(0, 1, 2, 3, 4),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL
    *(5, 6, 7, 36, 37, 38),  # locks
    *(9, 1025, 1027, 1028, 1030, 1032, 1033, 1034),  # questions, F_DUPFD_CLOEXEC, seals
)
_REFUSED_IOCTLS = (
    *(0x5412, 0x541C, 0x540E),  # TIOCSTI, TIOCLINUX, TIOCSCTTY: words in a terminal's mouth
    *(0x8901, 0x8902),  # FIOSETOWN, SIOCSPGRP: signals to others
    *(0x40086602, 0x401C5820, 0x40806685),  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY
)


@dataclass(frozen=True)
class Needs:
    """What the filter must make up for because another layer is missing."""

    own_mounts: bool
    """Without: changes of metadata pretend success and do nothing, for Landlock lets them through."""
    own_pids: bool
    """Without: no new session or group (calls pretend), and death with the parent, so that nothing gets away."""
    hidden_memory: bool
    """Without: no shared anonymous memory, which no resident size shows once it is let go of."""
    old_landlock: bool = False
    """With: no truncation of what is open for reading; it governs that from ABI 3 on."""
    only_signal: int | None = None
    """Where signals could leave the sandbox: the only process that may be signalled."""
    zygotes: bool = False
    """A judge in quarantine: it starts zygotes, which confine themselves and their forks."""


def available() -> bool:
    """Whether the numbers for this machine are known (the kernel may still refuse the program)."""
    return syscalls.machine_index() is not None


def program(needs: Needs) -> bytes:
    """The filter as BPF instructions of 8 bytes each. Raises OSError on a machine whose numbers are unknown."""
    column = syscalls.machine_index()
    if column is None:
        raise OSError(errno.ENOSYS, "no seccomp filter for this machine")
    actions = dict.fromkeys((*syscalls.ALLOWED, *syscalls.METADATA), _ALLOW)
    actions |= dict.fromkeys(syscalls.REFUSED, _REFUSE)
    if needs.zygotes:
        actions |= dict.fromkeys(_OF_A_JUDGE, _ALLOW)
    if not needs.own_mounts:
        actions |= dict.fromkeys(syscalls.METADATA, _errno(0))
    actions |= _conditions(needs)
    by_number = {
        number: code for name, code in actions.items() if (number := syscalls.NUMBERS[name][column]) is not None
    }
    last = max(by_number)
    runs = [
        (next(group)[0], code)
        for code, group in itertools.groupby(
            ((number, by_number.get(number, _ABSENT)) for number in range(last + 2)), key=lambda item: item[1]
        )
    ]
    # x32 calls, which lie above all others, are absent too
    return _load(4) + _unless_equal(_ARCHITECTURES[column], _KILL) + _load(0) + _choose(runs)


def _conditions(needs: Needs) -> dict[str, bytes]:
    """Code for the calls whose verdict depends on their arguments, or on `needs`."""
    # clone3 keeps its flags in memory, where no filter can read them; libc falls back to clone
    code = {"clone3": _ABSENT}
    code["clone"] = _load(_FIRST) + _op(_JUMP_SET, _CLONE_NAMESPACES, 0, 1) + _REFUSE + _ALLOW
    code["prlimit64"] = _only(_FIRST, (0,))
    code["fcntl"] = _only(_SECOND, _FCNTL_COMMANDS)
    code["ioctl"] = _load(_SECOND) + b"".join(_if_equal(request, _REFUSE) for request in _REFUSED_IOCTLS) + _ALLOW
    # what a process holds could not be seen from outside any more
    options = (_PR_SET_DUMPABLE,) if needs.own_pids else (_PR_SET_DUMPABLE, _PR_SET_PDEATHSIG)
    code["prctl"] = _load(_FIRST) + b"".join(_if_equal(option, _REFUSE) for option in options) + _ALLOW
    if not needs.own_mounts:
        code |= _opens(needs)
    if not needs.own_pids:
        code |= dict.fromkeys(_SESSIONS, _errno(0))
    if needs.only_signal is not None:
        code |= dict.fromkeys(_QUEUED_SIGNALS, _REFUSE)
        code |= dict.fromkeys(_SIGNALS, _only(_FIRST, (0, needs.only_signal, 0xFFFFFFFF & -needs.only_signal)))
    if not needs.hidden_memory:
        flags = _load(_FOURTH) + _op(_AND, _SHARED_ANONYMOUS)
        code["mmap"] = flags + _if_equal(_SHARED_ANONYMOUS, _REFUSE) + _ALLOW
    return code


def _opens(needs: Needs) -> dict[str, bytes]:
    """Opening files where Landlock alone guards them: it lets access mode 3 through, which grants ioctls, and in its
    first versions truncation."""
    refused = _op(_AND, _O_ACCMODE) + _if_equal(_O_ACCMODE, _REFUSE) + _ALLOW
    if needs.old_landlock:
        shrinks = b"".join(_if_equal(_O_TRUNC | mode, _REFUSE) for mode in (0, _O_ACCMODE))
        refused = _op(_AND, _O_TRUNC | _O_ACCMODE) + shrinks + refused
    code = {"open": _load(_SECOND) + refused, "openat": _load(_THIRD) + refused, "openat2": _ABSENT}
    return code | ({"truncate": _REFUSE} if needs.old_landlock else {})


_FIRST, _SECOND, _THIRD, _FOURTH = 16, 24, 32, 40
"""Where struct seccomp_data holds the low halves of arguments; 0 is the number, 4 the architecture."""
_LOAD, _JUMP, _JUMP_EQUAL, _JUMP_GE, _JUMP_SET, _AND, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _errno(error: int) -> bytes:
    """Return with that errno; 0 is a call that claims success and does nothing."""
    return _op(_RETURN, 0x50000 | error)


_ALLOW = _op(_RETURN, 0x7FFF0000)
_KILL = _op(_RETURN, 0x80000000)
_REFUSE = _errno(errno.EPERM)
_ABSENT = _errno(errno.ENOSYS)


def _load(offset: int) -> bytes:
    return _op(_LOAD, offset)


def _if_equal(value: int, then: bytes) -> bytes:
    return _op(_JUMP_EQUAL, value, 0, len(then) // 8) + then


def _unless_equal(value: int, then: bytes) -> bytes:
    return _op(_JUMP_EQUAL, value, len(then) // 8, 0) + then


def _only(argument: int, allowed: Sequence[int]) -> bytes:
    """Refuse the call unless the low half of that argument is one of `allowed`."""
    return _load(argument) + b"".join(_if_equal(value, _ALLOW) for value in allowed) + _REFUSE


def _choose(runs: Sequence[tuple[int, bytes]]) -> bytes:
    """A binary search: each run of numbers from its first one on ends in its code. Jumps reach 255 instructions."""
    if len(runs) == 1:
        return runs[0][1]
    middle = len(runs) // 2
    below, above = _choose(runs[:middle]), _choose(runs[middle:])
    if len(below) // 8 <= 255:
        return _op(_JUMP_GE, runs[middle][0], len(below) // 8, 0) + below + above
    return _op(_JUMP_GE, runs[middle][0], 0, 1) + _op(_JUMP, len(below) // 8) + below + above

"""The system call filter: a deny-list that keeps candidates from the kernel's dangerous corners.

Invariant: a compiler, Python and several threads go on working under it, while network, namespaces, mounts, tracing,
hidden memory and changes to other processes are refused with EPERM. Numbers: syscall_64.tbl (x86_64) and
asm-generic/unistd.h (aarch64); instruction and return codes: linux/{bpf_common,seccomp}.h. confine.py loads it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kernelsmith.sandbox import linux

_ARCHITECTURES = (0xC000003E, 0xC00000B7)  # AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64
_X32 = 0x40000000
_ENOSYS, _EPERM = 38, 1
_CLONE3 = 435
_CLONE_NAMESPACES = 0x7E020000

# name: (x86_64, aarch64); None where the architecture lacks the call
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "vhangup": (153, 58),
    "socket": (41, 198),  # neither network nor other people's unix sockets; socketpair stays
    "shmget": (29, 194),  # memory that no process's resident size shows
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
_SESSIONS = {"setsid": (112, 157), "setpgid": (109, 154)}
_ONLY_SELF = {"prlimit64": (302, 261), "sched_setaffinity": (203, 122)}
_SIGNALS = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131)}
_QUEUED_SIGNALS = {"rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424)}
_CLONE = (56, 220)
_MMAP = (9, 222)
_SHARED_ANONYMOUS = 0x21  # MAP_SHARED | MAP_ANONYMOUS
_PRCTL = (157, 167)
_PR_SET_PDEATHSIG = 1
# chmod, chown, utime, xattr, file attributes
_METADATA = (
    (90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199, 463, 466, 469),
    (52, 53, 452, 55, 54, 88, 5, 6, 7, 14, 15, 16, 463, 466, 469),
)


@dataclass(frozen=True)
class Needs:
    """What the filter must make up for because another layer is missing."""

    readonly_mounts: bool  # without: changes of metadata pretend success and do nothing, for Landlock lets them through
    own_pids: bool  # without: no new session or process group, and death with the parent, so that nothing gets away
    hidden_memory: bool  # without: no shared anonymous memory, which no resident size shows once it is let go of
    only_signal: int | None = None  # where signals could leave the sandbox: the only process that may be signalled


def available() -> bool:
    """Whether the numbers for this machine are known (the kernel may still refuse the program)."""
    return linux.machine_index() is not None


def program(needs: Needs) -> bytes:
    """The filter as BPF instructions of 8 bytes each. Raises OSError on a machine whose numbers are unknown."""
    column = linux.machine_index()
    if column is None:
        raise OSError(_ENOSYS, "no seccomp filter for this machine")
    denied = dict(_DENIED)
    if not needs.own_pids:
        denied |= _SESSIONS
    if needs.only_signal is not None:
        denied |= _QUEUED_SIGNALS
    code = [_load(4), _unless_equal(_ARCHITECTURES[column], _KILL), _load(0)]
    if column == 0:
        code.append(_op(_JUMP_GE, _X32, 0, 1) + _refuse(_EPERM))
    code += [_if_equal(number, _refuse(_EPERM)) for row in denied.values() if (number := row[column]) is not None]
    if not needs.readonly_mounts:
        code += [_if_equal(number, _refuse(0)) for number in _METADATA[column]]
    code += [_only_first_argument(row[column], (0,)) for row in _ONLY_SELF.values()]
    if needs.only_signal is not None:
        whom = (0, needs.only_signal, 0xFFFFFFFF & -needs.only_signal)
        code += [_only_first_argument(row[column], whom) for row in _SIGNALS.values()]
    if not needs.own_pids:
        code.append(_if_equal(_PRCTL[column], _load(16) + _if_equal(_PR_SET_PDEATHSIG, _refuse(_EPERM)) + _ALLOW))
    if not needs.hidden_memory:
        flags = _load(40) + _op(_AND, _SHARED_ANONYMOUS)
        code.append(_if_equal(_MMAP[column], flags + _if_equal(_SHARED_ANONYMOUS, _refuse(_EPERM)) + _ALLOW))
    # clone3 keeps its flags in memory, where no filter can read them; libc falls back to clone
    code.append(_if_equal(_CLONE3, _refuse(_ENOSYS)))
    code.append(
        _if_equal(_CLONE[column], _load(16) + _op(_JUMP_SET, _CLONE_NAMESPACES, 0, 1) + _refuse(_EPERM) + _ALLOW)
    )
    return b"".join([*code, _ALLOW])


_LOAD, _JUMP_EQUAL, _JUMP_GE, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


_ALLOW = _op(_RETURN, 0x7FFF0000)
_KILL = _op(_RETURN, 0x80000000)


def _load(offset: int) -> bytes:
    """Load a word of struct seccomp_data: 0 the number, 4 the architecture, 16 the low half of the first argument,
    40 that of the fourth."""
    return _op(_LOAD, offset)


def _refuse(error: int) -> bytes:
    """Return with that errno; 0 is a call that claims success and does nothing."""
    return _op(_RETURN, 0x50000 | error)


def _if_equal(value: int, then: bytes) -> bytes:
    return _op(_JUMP_EQUAL, value, 0, len(then) // 8) + then


def _unless_equal(value: int, then: bytes) -> bytes:
    return _op(_JUMP_EQUAL, value, len(then) // 8, 0) + then


def _only_first_argument(number: int, allowed: tuple[int, ...]) -> bytes:
    """Refuse the call unless the low half of its first argument is one of `allowed`."""
    return _if_equal(number, _load(16) + b"".join(_if_equal(value, _ALLOW) for value in allowed) + _refuse(_EPERM))

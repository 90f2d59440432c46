"""The filter by value: the kernel's own numbers, every call in one table, what each combination of layers allows."""

from __future__ import annotations

import errno
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from kernelsmith.sandbox.confine import landlock, linux, seccomp, syscalls

FULL = seccomp.Needs(own_mounts=True, own_pids=True, hidden_memory=True)
PLAIN = seccomp.Needs(own_mounts=False, own_pids=False, hidden_memory=False, only_signal=1234)
OLD = seccomp.Needs(own_mounts=False, own_pids=False, hidden_memory=False, old_landlock=True)
KILL_PROCESS, ALLOW, PRETENDS = 0x80000000, 0x7FFF0000, 0x50000
REFUSED, ABSENT = PRETENDS | errno.EPERM, PRETENDS | errno.ENOSYS
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# What arch/arm64/include/uapi/asm/unistd.h asks the generic header for; it is all that arm64 has of its own.
_ARM64 = ("RENAMEAT", "NEW_STAT", "SET_GET_RLIMIT", "TIME32_SYSCALLS", "SYS_CLONE3", "MEMFD_SECRET")
NO_CALLS = {"syscalls", "arch_specific_syscall"}


def headers_numbers(machine: str) -> dict[str, int]:
    """What the kernel's header defines for that machine; skips where it is not installed."""
    compiler = shutil.which("g++") or shutil.which("gcc")
    if not HEADERS[machine].exists() or compiler is None:
        pytest.skip(f"no {HEADERS[machine]} or no preprocessor")
    wants = [f"-D__ARCH_WANT_{name}" for name in _ARM64] if machine == "aarch64" else []
    said = subprocess.run(
        [compiler, "-E", "-dM", "-x", "c", *wants, str(HEADERS[machine])], capture_output=True, text=True, check=True
    ).stdout
    defined = dict(re.findall(r"#define (__NR\w+) (\w+)", said))
    found = {}
    for name, value in defined.items():
        while value in defined:
            value = defined[value]
        if name.startswith("__NR_"):
            found[name.removeprefix("__NR_")] = int(value)
    return {name: number for name, number in found.items() if name not in NO_CALLS}


def verdict(program: bytes, machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel's BPF machine would return for a system call."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack(
        "=IIQ6Q", number, architecture or MACHINES[machine], 0, *[value & (1 << 64) - 1 for value in padded]
    )
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x05:
            at += value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
            at += if_true if holds else if_false


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("platform.machine", lambda: request.param)
    return str(request.param)


def number(machine: str, name: str) -> int:
    found = syscalls.NUMBERS[name][list(MACHINES).index(machine)]
    assert found is not None, name
    return found


def test_numbers_are_the_kernels(machine: str) -> None:
    column = list(MACHINES).index(machine)
    known = {name: row[column] for name, row in syscalls.NUMBERS.items() if row[column] is not None}
    newest = max(headers_numbers(machine).values())
    ours = {name: value for name, value in known.items() if value <= newest}
    theirs = {name: value for name, value in headers_numbers(machine).items() if value <= max(known.values())}
    later = {"uretprobe", "uprobe"}  # between older numbers since Linux 6.11
    assert {name: value for name, value in ours.items() if name not in later} == {
        name: value for name, value in theirs.items() if name not in later
    }
    assert len(set(known.values())) == len(known)


def test_every_call_is_in_one_table() -> None:
    tables = (syscalls.ALLOWED, syscalls.METADATA, syscalls.REFUSED)
    assert sum(len(table) for table in tables) == len(syscalls.NUMBERS) > 380


def test_every_number_has_the_verdict_of_its_table_and_unknown_ones_do_not_exist(machine: str) -> None:
    column = list(MACHINES).index(machine)
    names = {row[column]: name for name, row in syscalls.NUMBERS.items()}
    full, plain = seccomp.program(FULL), seccomp.program(PLAIN)
    for call in (*range(600), 0x40000000, 0x40000001, 0x40000000 + 512, 0xFFFFFFFF):
        name = names.get(call)
        if name in syscalls.REFUSED:
            assert verdict(full, machine, call) == verdict(plain, machine, call) == REFUSED, name
        elif name in syscalls.METADATA:
            assert (verdict(full, machine, call), verdict(plain, machine, call)) == (ALLOW, PRETENDS), name
        elif name == "openat2":  # how it opens is in memory, where no filter can read it
            assert (verdict(full, machine, call), verdict(plain, machine, call)) == (ALLOW, ABSENT)
        elif name is None or name == "clone3":
            assert verdict(full, machine, call) == verdict(plain, machine, call) == ABSENT, call
        else:
            assert verdict(full, machine, call) == ALLOW, name
        assert verdict(full, machine, call, architecture=0x40000003) == KILL_PROCESS  # i386, through int 0x80


def test_arguments_decide_where_they_must(machine: str) -> None:
    full, plain = seccomp.program(FULL), seccomp.program(PLAIN)

    def said(program: bytes, name: str, *arguments: int) -> int:
        return verdict(program, machine, number(machine, name), *arguments)

    for program in (full, plain):
        assert said(program, "clone", 0x10000000 | 17) == REFUSED
        assert said(program, "clone", 0x3D0F00) == ALLOW  # a thread, as libc starts it
        assert (said(program, "prlimit64", 0, 7), said(program, "prlimit64", 4321, 7)) == (ALLOW, REFUSED)
        for command in (0, 1, 2, 3, 4, 6, 1030, 1033):
            assert said(program, "fcntl", 3, command) == ALLOW
        for command in (8, 10, 15, 1024, 1026, 1031, 1040):  # owner, signal, lease, notice, size of a pipe, delegation
            assert said(program, "fcntl", 3, command) == REFUSED
        assert said(program, "ioctl", 0, 0x5401) == ALLOW  # TCGETS
        for request in (0x5412, 0x8901, 0x40086602, 0xFFFFFFFF00000000 | 0x5412):
            assert said(program, "ioctl", 0, request) == REFUSED
    assert (said(full, "setsid"), said(plain, "setsid")) == (ALLOW, PRETENDS)
    assert (said(full, "prctl", 1), said(plain, "prctl", 1), said(plain, "prctl", 15)) == (ALLOW, REFUSED, ALLOW)
    assert (said(full, "mmap", 0, 4096, 3, 0x21), said(plain, "mmap", 0, 4096, 3, 0x21)) == (ALLOW, REFUSED)
    assert said(plain, "mmap", 0, 4096, 3, 0x22) == ALLOW
    assert (said(full, "kill", 99), said(plain, "kill", 99), said(plain, "kill", -1)) == (ALLOW, REFUSED, REFUSED)
    assert {said(plain, "kill", pid) for pid in (0, 1234, -1234)} == {ALLOW}
    assert (said(full, "pidfd_send_signal"), said(plain, "pidfd_send_signal")) == (ALLOW, REFUSED)


def test_opening_is_no_way_around_an_old_landlock(machine: str) -> None:
    full, plain, old = (seccomp.program(needs) for needs in (FULL, PLAIN, OLD))

    def said(program: bytes, flags: int) -> int:
        return verdict(program, machine, number(machine, "openat"), -100, 0, flags)

    for flags in (os.O_RDONLY | os.O_CLOEXEC, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_RDWR | os.O_TRUNC, os.O_RDWR):
        assert {said(program, flags) for program in (full, plain, old)} == {ALLOW}
    assert [said(program, os.O_RDONLY | os.O_TRUNC) for program in (full, plain, old)] == [ALLOW, ALLOW, REFUSED]
    for more in (0, os.O_TRUNC, os.O_CLOEXEC):
        assert [said(program, os.O_ACCMODE | more) for program in (full, plain, old)] == [ALLOW, REFUSED, REFUSED]
    call = number(machine, "truncate")
    assert [verdict(program, machine, call) for program in (full, plain, old)] == [ALLOW, ALLOW, REFUSED]


@pytest.mark.skipif(not Path("/usr/include/asm-generic/ioctls.h").exists(), reason="no headers of the kernel")
def test_requests_and_commands_are_the_kernels() -> None:
    headers = ("linux/fcntl", "sys/ioctl", "asm/sockios", "linux/fs", "linux/fsverity", "linux/prctl", "linux/landlock")
    headers += ("linux/audit", "linux/seccomp", "linux/sched", "sys/mman")
    lines = [f"#include <{name}.h>" for name in headers]
    wanted = {
        "TIOCSTI": 0x5412,
        "TIOCLINUX": 0x541C,
        "TIOCSCTTY": 0x540E,
        "FIOSETOWN": 0x8901,
        "SIOCSPGRP": 0x8902,
        "FS_IOC_SETFLAGS": 0x40086602,
        "FS_IOC_FSSETXATTR": 0x401C5820,
        "FS_IOC_ENABLE_VERITY": 0x40806685,
        "F_SETLEASE": 1024,
        "F_NOTIFY": 1026,
        "F_SETPIPE_SZ": 1031,
        "F_ADD_SEALS": 1033,
        "F_DUPFD_CLOEXEC": 1030,
        "MAP_SHARED|MAP_ANONYMOUS": seccomp._SHARED_ANONYMOUS,
        "PR_SET_PDEATHSIG": seccomp._PR_SET_PDEATHSIG,
        "AUDIT_ARCH_X86_64": MACHINES["x86_64"],
        "AUDIT_ARCH_AARCH64": MACHINES["aarch64"],
        "SECCOMP_RET_KILL_PROCESS": KILL_PROCESS,
        "SECCOMP_RET_ALLOW": ALLOW,
        "SECCOMP_RET_ERRNO": PRETENDS,
        **{name: getattr(linux, name) for name in dir(linux) if name.startswith("CLONE_NEW")},
        "LANDLOCK_ACCESS_FS_EXECUTE": landlock._EXECUTE,
        "LANDLOCK_ACCESS_FS_READ_DIR": landlock._READ_DIR,
        "LANDLOCK_ACCESS_FS_WRITE_FILE": landlock._WRITE,
        "LANDLOCK_ACCESS_FS_READ_FILE": landlock._READ,
        "LANDLOCK_ACCESS_FS_MAKE_CHAR": landlock._MAKE_CHAR,
        "LANDLOCK_ACCESS_FS_MAKE_BLOCK": landlock._MAKE_BLOCK,
    }
    for name, value in wanted.items():
        lines.append(f'_Static_assert((({name}) & 0xffffffff) == {value & 0xFFFFFFFF}u, "{name}");')
    done = subprocess.run(
        [shutil.which("gcc") or "gcc", "-D_GNU_SOURCE", "-fsyntax-only", "-x", "c", "-"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr


def test_a_machine_without_numbers_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert not seccomp.available()
    assert landlock.abi() == 0
    with pytest.raises(OSError, match="machine"):
        seccomp.program(FULL)
    with pytest.raises(OSError, match="riscv64"):
        linux.mount_readonly("/")

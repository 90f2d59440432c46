"""Makes every system call that nobody needs, some that no kernel has, and requests beyond the sandbox; none arrives."""

import errno
import os

from kernelsmith.drill.tools import attempt, libc
from kernelsmith.sandbox.confine import syscalls


def reaches(name, *arguments):
    """Succeeds if the call so much as reached the kernel."""
    try:
        return libc(name, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            raise
        return error.errno


def act(stage):
    column = syscalls.machine_index()
    numbers = {name: row[column] for name, row in syscalls.REFUSED.items() if row[column] is not None}
    numbers |= {f"call {number}": number for number in (471, 599, 0x40000000 + 1, 0x7FFFFFFF)}
    for name, number in numbers.items():
        attempt(stage, name, lambda number=number: reaches("syscall", number, -1, -1, -1, -1, -1, -1))
    reader, writer = os.pipe()
    mine = os.open("mine", os.O_CREAT | os.O_RDWR)
    theirs = os.open(os.__file__, os.O_RDONLY)
    commands = {"larger pipe": (writer, 1031, 1 << 20), "signals for others": (reader, 8, stage.judge)}
    commands |= {"a deadly signal": (reader, 10, 9), "lease": (theirs, 1024, 0), "notice": (theirs, 1026, 2)}
    for name, command in commands.items():
        attempt(stage, name, lambda command=command: reaches("fcntl", *command))
    attempt(stage, "hiding what it holds", lambda: reaches("prctl", 4, 0))
    socket = stage.channel.fileno()
    requests = {"typing for others": (socket, 0x5412, b"x"), "owner": (socket, 0x8901, b"\1\0\0\0")}
    requests |= {"attributes": (theirs, 0x40086602, bytes(8)), "of mine": (mine, 0x40086602, bytes(8))}
    for name, request in requests.items():
        attempt(stage, name, lambda request=request: reaches("ioctl", *request))


def twin(stage):
    assert libc("getpid") == os.getpid()
    assert os.pread(os.open(os.__file__, os.O_RDONLY), 3, 0)

"""Types into the terminal that started it all; there must be none to type into."""

import fcntl
import os

from kernelsmith.drill.tools import attempt


def act(stage):
    for fd in (0, 1, 2):
        attempt(stage, "typed into a terminal", lambda fd=fd: fcntl.ioctl(fd, 0x5412, b"\n"))
    for path in ("/dev/tty", "/dev/console", "/dev/pts/0", "/dev/tty1", "/dev/ptmx"):
        attempt(stage, f"opened {path} to write", lambda path=path: os.open(path, os.O_WRONLY))


def twin(stage):
    assert not os.isatty(1)

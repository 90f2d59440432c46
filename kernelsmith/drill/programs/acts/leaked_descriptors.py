"""Tries every descriptor from 0 to 1023: none but its own may lead anywhere."""

import os

from kernelsmith.drill.tools import attempt


def act(stage):
    own = {0, 1, 2, stage.channel.fileno(), *stage.fds}
    for fd in set(range(1024)) - own:
        attempt(stage, f"descriptor {fd}", lambda fd=fd: os.fstat(fd))
    for fd in own:
        for flags in (os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY):
            attempt(stage, f"out of descriptor {fd}", lambda fd=fd, flags=flags: os.open("..", flags, dir_fd=fd))


def twin(stage):
    reader, writer = os.pipe()
    os.write(writer, b"hello")
    assert os.read(reader, 9) == b"hello"

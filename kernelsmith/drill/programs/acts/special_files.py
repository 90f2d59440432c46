"""Pipes, sockets and device nodes in the scratch; no device may come of it, and nobody may wait at a pipe."""

import os
import stat

from kernelsmith.drill.tools import attempt


def act(stage):
    os.mkfifo("candidate.py")
    os.mkfifo("pipe", 0o666)
    for kind, device in ((stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFCHR, os.makedev(1, 1))):
        attempt(stage, "made a device node", lambda kind=kind, device=device: os.mknod("device", kind | 0o666, device))


def twin(stage):
    os.mkfifo("pipe")
    if os.fork() == 0:
        with open("pipe", "w") as file:
            file.write("hello")
        os._exit(0)
    assert open("pipe").read() == "hello"
    os.wait()

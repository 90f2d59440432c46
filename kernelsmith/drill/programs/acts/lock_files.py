"""Locks every file that it can open, among them those that others lock; nobody may have to wait for it."""

import fcntl
import os

from kernelsmith.drill.tools import attempt, harmless


def act(stage):
    attempt(stage, "locked a file outside", lambda: fcntl.flock(os.open(stage.lock, os.O_RDONLY), fcntl.LOCK_EX))
    for path in (os.__file__, "/usr/bin/env", "/dev/null"):
        harmless(lambda path=path: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB))
    if os.fork() == 0:
        os.read(os.pipe()[0], 1)


def twin(stage):
    fcntl.flock(os.open("mine", os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)

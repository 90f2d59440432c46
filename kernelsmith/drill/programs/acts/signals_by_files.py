"""Has the kernel signal others for it: owners of pipes, leases, parents' deaths; none may be hit."""

import fcntl
import os
import signal
import socket
import time

from kernelsmith.drill.tools import harmless, libc


def act(stage):
    for pid in {stage.victim, stage.sibling} - {0, 1, os.getpid()}:
        one, other = harmless(socket.socketpair) or map(os.fdopen, os.pipe(), ("rb", "wb"))
        for owner in (pid, -pid):
            harmless(lambda one=one, owner=owner: fcntl.fcntl(one, fcntl.F_SETOWN, owner))
            harmless(lambda one=one: fcntl.fcntl(one, 10, signal.SIGKILL))  # F_SETSIG
            harmless(lambda one=one: fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK))
            harmless(lambda other=other: os.write(other.fileno(), b"x"))
    harmless(lambda: libc("prctl", 1, int(signal.SIGKILL), 0, 0, 0))
    time.sleep(0.05)


def twin(stage):
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    assert heard

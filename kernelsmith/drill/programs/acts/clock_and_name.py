"""Sets the machine's clock and name; both must stay."""

import socket
import time

from kernelsmith.drill.tools import attempt, libc


def act(stage):
    attempt(stage, "set the clock", lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))
    attempt(stage, "adjusted the clock", lambda: libc("adjtimex", b"\x01\x40" + bytes(206)))
    attempt(stage, "set the name", lambda: socket.sethostname(socket.gethostname()))


def twin(stage):
    assert time.time() > 0 and socket.gethostname()

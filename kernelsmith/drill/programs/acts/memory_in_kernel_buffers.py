"""Fills socket buffers, which belong to no process's memory; must be refused, counted or few."""

import os
import socket

ENDS = ("answered", "memory", "processes", "timeout")
MOST = 256 << 20


def act(stage):
    held, pairs = 0, []
    try:
        while held < MOST:
            pair = socket.socketpair()
            pairs.append(pair)
            for end in pair:
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
                try:
                    while True:
                        held += end.send(b"x" * 65536)
                except BlockingIOError:
                    pass
            if len(pairs) == 400 and os.fork() == 0:
                os.read(os.pipe()[0], 1)
    except OSError:
        pass
    if held >= MOST:
        stage.boasts.append(f"holds {held >> 20} MiB in socket buffers")
    return held


def twin(stage):
    reader, writer = os.pipe()
    os.write(writer, b"hello")
    assert os.read(reader, 9) == b"hello"

"""Sends to listeners through sockets that socketpair gave it; they must be deaf to names."""

import os
import socket

from kernelsmith.drill.tools import harmless


def act(stage):
    for kind, name in ((socket.SOCK_DGRAM, stage.packets), (socket.SOCK_STREAM, stage.abstract)):
        pair = harmless(lambda kind=kind: socket.socketpair(socket.AF_UNIX, kind))
        if pair is None:
            continue  # there are none to abuse
        one, other = pair
        for address in ("\0" + name, stage.socket):
            harmless(lambda one=one, address=address: one.connect(address))
            harmless(lambda one=one, address=address: one.sendto(b"x", address))
            harmless(lambda one=one, address=address: one.sendmsg([b"x"], [], 0, address))
        harmless(lambda other=other: other.bind("\0" + stage.mark + "-made"))
        harmless(other.listen)


def twin(stage):
    reader, writer = os.pipe()
    os.write(writer, b"hello")
    assert os.read(reader, 9) == b"hello"

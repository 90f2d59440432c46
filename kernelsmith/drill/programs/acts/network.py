"""Connects by every kind of socket and asks for a name; no listener may be reached, its own pipes work."""

import os
import socket

from kernelsmith.drill.tools import attempt, libc


def act(stage):
    def connect(family, address, kind=socket.SOCK_STREAM):
        with socket.socket(family, kind) as sock:
            sock.settimeout(2)
            sock.connect(address)
            sock.send(b"x")

    attempt(stage, "tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", stage.tcp)))
    attempt(stage, "udp", lambda: connect(socket.AF_INET, ("127.0.0.1", stage.udp), socket.SOCK_DGRAM))
    attempt(stage, "unix by path", lambda: connect(socket.AF_UNIX, stage.socket))
    attempt(stage, "abstract unix", lambda: connect(socket.AF_UNIX, "\0" + stage.abstract))
    attempt(stage, "raw", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    attempt(stage, "netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
    attempt(stage, "vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
    attempt(stage, "kernel crypto", lambda: socket.socket(38, socket.SOCK_SEQPACKET))
    attempt(stage, "name service", lambda: socket.getaddrinfo("localhost.example", 80))
    attempt(stage, "io_uring", lambda: libc("io_uring_setup", 8, bytes(120)))


def twin(stage):
    reader, writer = os.pipe()
    os.write(writer, b"hello")
    assert os.read(reader, 9) == b"hello"

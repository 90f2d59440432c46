"""Frames over a socket whose other end may do anything."""

from __future__ import annotations

import array
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from kernelsmith.sandbox.wire.protocol import MAX_FRAME, Channel, PeerGoneError, ProtocolError


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel that accepts up to two descriptors, and the bare socket of its peer."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(ours, max_fds=2)
    yield channel, theirs
    channel.close()
    theirs.close()


def soon() -> float:
    return time.monotonic() + 5


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def pass_fds(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


@pytest.mark.parametrize("size", [0, 1, 4096, 5_000_000])
def test_payloads_arrive_whole(size: int) -> None:
    ours, theirs = Channel.pair()
    payload = os.urandom(size)
    sender = threading.Thread(target=theirs.send, args=(payload,))
    sender.start()
    assert ours.receive(soon()).payload == payload
    sender.join()
    ours.close()
    theirs.close()


def test_frames_and_their_descriptors_stay_together() -> None:
    ours, theirs = Channel.pair()
    reader, writer = os.pipe()
    ours.send(b"first")
    ours.send(b"second", [writer, reader])
    ours.send(b"third")
    assert theirs.receive(soon()).fds == ()
    second = theirs.receive(soon())
    assert (second.payload, len(second.fds)) == (b"second", 2)
    os.write(second.fds[0], b"through")
    assert os.read(reader, 10) == b"through"
    assert not os.get_inheritable(second.fds[0])
    assert theirs.receive(soon()).payload == b"third"
    second.close()
    for fd in (reader, writer):
        os.close(fd)
    ours.close()
    theirs.close()


def test_a_frame_too_large_is_refused_on_both_ends(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    with pytest.raises(ValueError, match="at most"):
        channel.send(bytes(MAX_FRAME + 1))
    peer.send(struct.pack("=II", MAX_FRAME + 1, 0))
    with pytest.raises(ProtocolError, match="at most"):
        channel.receive(soon())


@pytest.mark.parametrize("said", [b"", b"\x05\0\0", struct.pack("=II", 10, 0) + b"half"])
def test_an_end_in_mid_frame_is_reported(ends: tuple[Channel, socket.socket], said: bytes) -> None:
    channel, peer = ends
    peer.send(said)
    peer.close()
    with pytest.raises(PeerGoneError):
        channel.receive(soon())


def test_a_peer_that_dies_with_our_words_unread_is_gone() -> None:
    ours, theirs = Channel.pair()
    ours.send(b"never read")
    theirs.close()  # the kernel answers with ECONNRESET, not with an end of file
    with pytest.raises(PeerGoneError):
        ours.receive(soon())
    with pytest.raises(PeerGoneError):
        ours.send(b"more")
    ours.close()


def test_a_deadline_holds_however_slowly_the_peer_drips(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    peer.send(struct.pack("=II", 1000, 0))
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.01):
            peer.send(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    with pytest.raises(TimeoutError):
        channel.receive(time.monotonic() + 0.1)
    stop.set()
    dripping.join()


def test_a_deadline_holds_for_a_peer_that_does_not_read(ends: tuple[Channel, socket.socket]) -> None:
    channel, _ = ends
    with pytest.raises(TimeoutError):
        channel.send(bytes(8 << 20), deadline=time.monotonic() + 0.1)
    with pytest.raises(TimeoutError):
        channel.receive(time.monotonic() - 1)


@pytest.mark.parametrize(("announced", "sent"), [(0, 1), (1, 0), (2, 1)])
def test_descriptors_must_be_as_announced_and_none_is_kept(
    ends: tuple[Channel, socket.socket], announced: int, sent: int
) -> None:
    channel, peer = ends
    before = open_fds()
    header = struct.pack("=II", 0, announced)
    pass_fds(peer, header, [0] * sent) if sent else peer.send(header)
    with pytest.raises(ProtocolError, match="announces"):
        channel.receive(soon())
    assert open_fds() == before


def test_more_descriptors_than_allowed_are_refused(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    before = open_fds()
    pass_fds(peer, struct.pack("=II", 0, 30), [0] * 30)
    with pytest.raises(ProtocolError):
        channel.receive(soon())
    assert open_fds() == before


def test_descriptors_cannot_ride_on_a_payload(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    before = open_fds()
    peer.send(struct.pack("=II", 4, 0))
    pass_fds(peer, b"data", [0])
    with pytest.raises(ProtocolError, match="nobody asked"):
        channel.receive(soon())
    assert open_fds() == before


def test_the_judges_end_takes_no_descriptor() -> None:
    ours, theirs = Channel.pair()
    before = open_fds()
    theirs.send(b"", [0])
    with pytest.raises(ProtocolError, match="nobody asked"):
        ours.receive(soon())
    assert open_fds() == before
    ours.close()
    theirs.close()

"""Frames between the judge and a confined child: length-prefixed bytes and file descriptors over a stream socket.

Invariant: whatever the peer writes, `receive` returns one whole frame, raises `ProtocolError`, or raises `TimeoutError`
at its deadline. It never blocks for longer, never allocates more than one frame, never unpickles and never keeps a
descriptor it did not ask for. Judges and role modules use it on either end; what the bytes mean (JSON) is theirs.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

MAX_FRAME = 64 << 20
MAX_FDS = 64
_HEADER = struct.Struct("=II")  # payload bytes, descriptors
_CHUNK = 1 << 20


class ProtocolError(Exception):
    """The peer broke the framing: a frame too large, descriptors nobody asked for, or an end in mid-frame."""


class PeerGoneError(ProtocolError):
    """The peer closed its end, or died."""


@dataclass(frozen=True)
class Frame:
    """One message. The receiver owns `fds` and closes them."""

    payload: bytes
    fds: tuple[int, ...] = ()

    def close(self) -> None:
        """Close the descriptors that came along."""
        for fd in self.fds:
            os.close(fd)


class Channel:
    """One end of a connected SOCK_STREAM unix socket pair; takes ownership of the socket.

    `max_fds` is how many descriptors a received frame may carry: 0 on the judge's end, for a hostile child has
    nothing to hand over. One thread at a time uses it, or one sends and one receives where neither has a deadline: both
    would set the socket's one time limit.
    """

    def __init__(self, sock: socket.socket, *, max_fds: int = MAX_FDS) -> None:
        self._socket = sock
        self._max_fds = max_fds

    @classmethod
    def pair(cls, *, max_fds: int = 0) -> tuple[Channel, Channel]:
        """Two connected ends: the judge's, which accepts no more than `max_fds` descriptors, and the child's."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours, max_fds=max_fds), cls(theirs)

    def fileno(self) -> int:
        """The socket's descriptor, for `poll`."""
        return self._socket.fileno()

    def refuse_fds(self) -> None:
        """From here on, a frame that carries descriptors breaks the protocol."""
        self._max_fds = 0

    def close(self) -> None:
        """Close the socket; safe to call twice."""
        self._socket.close()

    def shutdown(self) -> None:
        """End both directions: the peer, and a thread that waits in `receive` here, see the end."""
        with contextlib.suppress(OSError):  # the peer may have ended it already
            self._socket.shutdown(socket.SHUT_RDWR)

    def send(self, payload: bytes, fds: Sequence[int] = (), *, deadline: float | None = None) -> None:
        """Write one frame. `deadline` is on `time.monotonic`; None waits for a peer that is slow to read.

        Raises ValueError (payload over 64 MiB, too many descriptors), TimeoutError, PeerGoneError.
        """
        if len(payload) > MAX_FRAME:
            raise ValueError(f"frame of {len(payload)} bytes; at most {MAX_FRAME}")
        if len(fds) > MAX_FDS:
            raise ValueError(f"frame with {len(fds)} descriptors; at most {MAX_FDS}")
        header = memoryview(_HEADER.pack(len(payload), len(fds)))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._wait(deadline)
            sent = self._socket.sendmsg([header], rights)
            for part in (header[sent:], memoryview(payload)):
                while part:
                    self._wait(deadline)
                    part = part[self._socket.send(part[:_CHUNK]) :]
        except TimeoutError:
            raise TimeoutError("the peer did not read in time") from None
        except OSError as error:
            raise PeerGoneError(f"the peer is gone ({error})") from error

    def receive(self, deadline: float | None = None) -> Frame:
        """Read one frame, by `deadline` on `time.monotonic` (None waits for ever).

        Raises TimeoutError, ProtocolError, PeerGoneError; after any of them the channel is of no further use.
        """
        fds: list[int] = []
        try:
            size, count = _HEADER.unpack(self._read(_HEADER.size, deadline, fds))
            if size > MAX_FRAME:
                raise ProtocolError(f"frame of {size} bytes; at most {MAX_FRAME}")
            if count != len(fds):
                raise ProtocolError(f"frame announces {count} descriptors and carries {len(fds)}")
            return Frame(self._read(size, deadline, None), tuple(fds))
        except BaseException as error:
            for fd in fds:
                os.close(fd)
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise PeerGoneError(f"the peer is gone ({error})") from error
            raise

    def _wait(self, deadline: float | None) -> None:
        """Give the next system call on the socket what is left until the deadline."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError("the deadline has passed")
        self._socket.settimeout(left)

    def _read(self, size: int, deadline: float | None, fds: list[int] | None) -> bytes:
        """Exactly `size` bytes; descriptors that ride on them go into `fds`, and are refused where that is None."""
        parts: list[bytes] = []
        missing = size
        while missing:
            self._wait(deadline)
            part = self._receive_some(min(missing, _CHUNK), fds)
            if not part:
                started = parts or fds is None
                raise PeerGoneError("the peer ended in the middle of a frame" if started else "the peer is gone")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _receive_some(self, size: int, fds: list[int] | None) -> bytes:
        # Without room for ancillary data the kernel drops descriptors itself and says so in MSG_CTRUNC.
        room = socket.CMSG_SPACE(self._max_fds * array.array("i").itemsize) if fds is not None and self._max_fds else 0
        part, ancillary, flags, _ = self._socket.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS and fds is not None:
                received = array.array("i")
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
                fds.extend(received)
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("the peer passed descriptors that nobody asked for")
        return part

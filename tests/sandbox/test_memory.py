"""Arenas: shared bytes that no holder can pull from under another."""

from __future__ import annotations

import mmap
import os

import pytest

from kernelsmith.sandbox.wire.memory import Arena, ArenaPool


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 1_000_003])
def test_both_sides_see_the_same_bytes(nbytes: int) -> None:
    with Arena.create(nbytes) as ours, Arena.attach(os.dup(ours.fd), nbytes) as theirs:
        ours.buffer[:nbytes] = data = os.urandom(nbytes)
        assert theirs.buffer[:nbytes] == data
        theirs.buffer[:nbytes] = bytes(nbytes)
        assert ours.buffer[:nbytes] == bytes(nbytes)
        assert ours.nbytes == theirs.nbytes == nbytes


def test_a_private_view_keeps_its_writes_to_itself() -> None:
    with Arena.create(10) as ours, Arena.attach(os.dup(ours.fd), 10, private=True) as theirs:
        ours.buffer[:3] = b"abc"
        theirs.buffer[0] = ord("X")
        assert (ours.buffer[:3], theirs.buffer[:3]) == (b"abc", b"Xbc")


@pytest.mark.parametrize("size", [0, 100, 1 << 20])
def test_its_size_is_sealed(size: int) -> None:
    with Arena.create(4096) as arena, pytest.raises(PermissionError):
        os.ftruncate(arena.fd, size)


def test_a_size_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        Arena.create(-1)
    with Arena.create(4096) as arena, pytest.raises(ValueError, match="length"):
        Arena.attach(arena.fd, 1 << 20)


def test_inputs_can_be_sealed_against_everybody_else() -> None:
    with Arena.create(4096, sealed_for_others=True) as ours:
        ours.buffer[:4] = b"mine"
        with pytest.raises(PermissionError):
            mmap.mmap(ours.fd, 4096)
        with pytest.raises(PermissionError):
            os.pwrite(ours.fd, b"evil", 0)
        with Arena.attach(os.dup(ours.fd), 4096, private=True) as theirs:
            assert theirs.buffer[:4] == b"mine"


def test_the_pool_hands_out_warm_arenas_by_size_class() -> None:
    pool = ArenaPool()
    first = pool.take(5000)
    assert first.nbytes == 8192
    first.buffer[0] = 7
    pool.give_back(first)
    assert pool.take(9000) is not first
    again = pool.take(8192)
    assert again is first
    assert again.buffer[0] == 0, "what the last user left must not help the next"


def test_the_pool_keeps_no_more_idle_than_allowed() -> None:
    pool = ArenaPool(max_idle_bytes=8192)
    arenas = [pool.take(4096) for _ in range(3)]
    for arena in arenas:
        pool.give_back(arena)
    assert [arena.buffer.closed for arena in arenas] == [False, False, True]
    pool.release()
    assert all(arena.buffer.closed and arena.fd < 0 for arena in arenas)


def test_closing_frees_descriptors_and_can_be_repeated() -> None:
    before = len(os.listdir("/proc/self/fd"))
    arena = Arena.create(4096)
    arena.close()
    arena.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_traceback_that_still_looks_at_an_arena_hides_nothing_and_keeps_no_descriptor() -> None:
    pool = ArenaPool(max_idle_bytes=0)
    arenas = [pool.take(5000), pool.take(9000)]
    view, fds = memoryview(arenas[0].buffer), [arena.fd for arena in arenas]
    for arena in arenas:
        pool.give_back(arena)
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    view[0] = 1

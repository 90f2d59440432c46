"""Traces and reads other processes' memory, takes their files; its own children it may not even trace."""

import ctypes
import os

from kernelsmith.drill.tools import attempt, libc


class Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def act(stage):
    for name, pid in {
        "judge": stage.judge,
        "zygote": stage.zygote,
        "victim": stage.victim,
        "sibling": stage.sibling,
    }.items():
        if pid == os.getpid():
            continue
        here, there = Span(ctypes.addressof(ctypes.create_string_buffer(64)), 64), Span(0x400000, 64)
        if name in ("victim", "sibling"):
            attempt(stage, f"attached to the {name}", lambda pid=pid: libc("ptrace", 16, pid, None, None))
        attempt(
            stage,
            f"read the {name}",
            lambda pid=pid: libc("process_vm_readv", pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0),
        )
        attempt(stage, f"took a file of the {name}", lambda pid=pid: libc("pidfd_getfd", os.pidfd_open(pid), 0, 0))
        attempt(stage, f"compared with the {name}", lambda pid=pid: libc("kcmp", os.getpid(), pid, 0, 0, 0))
        attempt(stage, f"moved pages of the {name}", lambda pid=pid: libc("move_pages", pid, 0, None, None, None, 0))


def twin(stage):
    assert ctypes.string_at(ctypes.create_string_buffer(b"mine"), 4) == b"mine"

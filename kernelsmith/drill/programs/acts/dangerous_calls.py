"""Calls into the kernel's corners: bpf, perf, io_uring, userfaultfd, keys, modules, handles; each must be refused."""

import os

from kernelsmith.drill.tools import attempt, libc


def act(stage):
    calls = {
        "bpf": (0, bytes(72), 72),
        "perf_event_open": (bytes(128), 0, -1, -1, 0),
        "io_uring_setup": (8, bytes(120)),
        "userfaultfd": (0x80000 | 1,),
        "add_key": (b"user", f"{stage.mark}-made".encode(), b"x", 1, -4),
        "keyctl": (0, -4, 1),
        "fanotify_init": (0, 0),
        "name_to_handle_at": (-100, b"/", bytes(128), bytes(8), 0),
        "open_by_handle_at": (-100, bytes(128), 0),
        "quotactl": (0, b"/", 0, bytes(64)),
        "acct": (None,),
        "swapoff": (b"/swap",),
        "klogctl": (3, bytes(64), 64),
        "reboot": (0,),
        "init_module": (b"", 0, b""),
        "ioperm": (0, 1, 1),
        "modify_ldt": (0, bytes(16), 16),
    }
    for name, arguments in calls.items():
        try:
            attempt(stage, name, lambda name=name, arguments=arguments: libc(name, *arguments))
        except AttributeError:
            continue  # this libc lacks the function


def twin(stage):
    assert os.eventfd(1) > 2 and os.uname().sysname == "Linux"

"""New namespaces, mounts, users, setuid programs: no way may lead back to more power."""

import os
import resource
import subprocess

from kernelsmith.drill.tools import attempt, libc


def act(stage):
    for name, flag in {
        "user": 0x10000000,
        "mount": 0x20000,
        "pid": 0x20000000,
        "network": 0x40000000,
        "cgroup": 0x2000000,
    }.items():
        attempt(stage, f"a new {name} namespace", lambda flag=flag: libc("unshare", flag))
        attempt(stage, f"clone with a new {name} namespace", lambda flag=flag: libc("clone", flag | 17, 0, 0, 0, 0))
    attempt(stage, "clone3", lambda: libc("clone3", bytes(88), 88))
    attempt(stage, "another's namespace", lambda: libc("setns", os.pidfd_open(stage.judge), 0x10000000))
    attempt(stage, "mount", lambda: libc("mount", b"tmpfs", b"/usr", b"tmpfs", 0, None))
    attempt(stage, "unmount", lambda: libc("umount2", b"/proc", 2))
    attempt(stage, "bind", lambda: libc("mount", b"/", stage.scratch.as_posix().encode(), None, 4096, None))
    for name, arguments in {"open_tree": (-100, b"/", 1), "fsopen": (b"tmpfs", 0), "pivot_root": (b".", b".")}.items():
        attempt(stage, name, lambda name=name, arguments=arguments: libc(name, *arguments))
    attempt(stage, "chroot", lambda: os.chroot("/usr"))
    for call in ("setuid", "setgid"):
        attempt(stage, call, lambda call=call: getattr(os, call)(0))
    attempt(stage, "setgroups", lambda: os.setgroups([0]))
    attempt(stage, "capabilities", lambda: libc("capset", bytes.fromhex("22050820") + bytes(4), b"\xff" * 24))
    attempt(stage, "ambient capabilities", lambda: libc("prctl", 47, 2, 21, 0, 0))
    attempt(stage, "the filter off", lambda: libc("prctl", 22, 0, 0, 0, 0))
    attempt(stage, "new privileges", lambda: libc("prctl", 38, 0, 0, 0, 0))
    attempt(stage, "more processes", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1 << 20, 1 << 20)))
    for command in ("su -c id", "sudo -n id", "mount", "newgrp root", "bwrap --dev-bind / / id", "unshare -Ur id"):
        words = command.split()
        if command != "mount":
            attempt(
                stage,
                command,
                lambda words=words: subprocess.run(words, stdin=subprocess.DEVNULL, check=True, timeout=5),
            )


def twin(stage):
    subprocess.run(["true"], check=True)
    assert os.getuid() == os.geteuid()

"""Children that do what they are asked: answer, compile, attach memory, import torch."""

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

from kernelsmith.sandbox.wire.memory import Arena


def main(channel, scratch):
    """Answer one request after another until the judge has had enough."""
    while True:
        frame = channel.receive()
        order = json.loads(frame.payload)
        answer = ACTS[order.pop("act")](scratch=scratch, fds=frame.fds, **order)
        channel.send(json.dumps(answer).encode())


def ping(scratch, fds, text="pong"):
    return text


def facts(scratch, fds):
    return {
        "pid": os.getpid(),
        "scratch": str(scratch),
        "cwd": os.getcwd(),
        "files": os.listdir(scratch),
        "environment": dict(os.environ),
        "original_environment": open("/proc/self/environ").read(),
        "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
        "modules": [name for name in ("torch", "triton") if name in sys.modules],
        "threads": len(os.listdir("/proc/self/task")),
    }


def inherited(scratch, fds):
    """What a process can get from those before it."""
    mask = os.umask(0)
    os.umask(mask)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
        terminal = True
    except OSError:
        terminal = False
    limits = ("NOFILE", "CORE", "STACK", "SIGPENDING", "MSGQUEUE")
    return {
        "signals": {name: int(status[name], 16) for name in ("SigBlk", "SigIgn", "SigPnd", "ShdPnd")},
        "umask": mask,
        "terminal": terminal,
        "huge pages": status["THP_enabled"].strip(),
        "limits": {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in limits},
        "python": [sys.flags.no_user_site, sys.flags.ignore_environment, sys.flags.safe_path],
        "variables": [name for name in os.environ if name.startswith(("LD_", "PYTHON", "MALLOC_", "GLIBC"))],
        "groups": os.getgroups(),
    }


def compile_and_load(scratch, fds):
    (scratch / "f.cpp").write_text('#include <vector>\nextern "C" int f() { return std::vector<int>(3).size(); }\n')
    subprocess.run(["g++", "-shared", "-fPIC", "-o", "f.so", "f.cpp"], cwd=scratch, check=True)
    return ctypes.CDLL(str(scratch / "f.so")).f()


def add_one(scratch, fds, nbytes, private):
    with Arena.attach(fds[0], nbytes, private=private) as arena:
        for index in range(nbytes):
            arena.buffer[index] = (arena.buffer[index] + 1) % 256
        return list(arena.buffer[:nbytes])


def opens(scratch, fds, path):
    """Whether a file can be opened, or why not."""
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        return error.strerror
    return True


def start_sleeper(scratch, fds):
    """A process below, by its number in here."""
    return subprocess.Popen(["sleep", "600"]).pid


def shrink(scratch, fds):
    try:
        os.ftruncate(fds[0], 0)
    except OSError as error:
        return error.strerror
    return "shrunk"


def start_threads(scratch, fds, count):
    go = threading.Event()
    threads = [threading.Thread(target=go.wait) for _ in range(count)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    return count


def tensors(scratch, fds):
    import torch

    torch.set_num_threads(2)
    return torch.ones(1 << 18).sqrt().sum().item()


def out_of_turn(scratch, fds):
    raise RuntimeError("a bug in the role\x1b[31m")


ACTS = {
    act.__name__: act
    for act in (
        *(ping, facts, inherited, compile_and_load, add_one, opens, start_sleeper),
        *(shrink, start_threads, tensors, out_of_turn),
    )
}

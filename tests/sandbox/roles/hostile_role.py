"""Children that mean harm. Run them only as confined roles: each really does its worst."""

import ctypes
import errno
import json
import mmap
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from kernelsmith.sandbox import syscalls


def main(channel, scratch):
    """Do one thing; answer what came of every attempt, where the thing lets us."""
    order = json.loads(channel.receive().payload)
    channel.send(json.dumps(ACTS[order["act"]](order, channel)).encode())


def attempt(results, name, act):
    try:
        results[name] = f"GOT {act()!r}"[:200]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        results[name] = f"denied: {type(error).__name__} {error}"[:200]


def libc(name, *arguments):
    library = ctypes.CDLL(None, use_errno=True)
    result = getattr(library, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def unfiltered(name, *arguments):
    """Succeeds if the call so much as reached the kernel."""
    try:
        return libc(name, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            raise
        return os.strerror(error.errno)


def read_some(path):
    with open(path, "rb") as file:
        return file.read(9)


def network(order, channel):
    results = {}

    def connect(family, address):
        with socket.socket(family) as sock:
            sock.settimeout(2)
            sock.connect(address)

    attempt(results, "tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", order["port"])))
    attempt(results, "unix by path", lambda: connect(socket.AF_UNIX, order["socket"]))
    attempt(results, "abstract unix", lambda: connect(socket.AF_UNIX, "\0" + order["abstract"]))
    attempt(results, "udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)))
    attempt(results, "raw", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    attempt(results, "netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
    attempt(results, "dns", lambda: socket.getaddrinfo("localhost.example", 80))
    attempt(results, "io_uring", lambda: libc("syscall", 425, 8, ctypes.create_string_buffer(120)))
    return results


def _list_tmp():
    """Names in /tmp beyond the way to what a child must read: this checkout or its environment may lie there."""
    needed = [*sys.modules["kernelsmith"].__path__, sys.prefix, sys.base_prefix]
    names = [name for name in os.listdir("/tmp") if not any(f"{path}/".startswith(f"/tmp/{name}/") for path in needed)]
    if not names:
        raise PermissionError("nothing to see")
    return names


def secrets(order, channel):
    results = {}

    def link(make):
        def through():
            make(order["secret"], "link")
            return Path("link").read_text()

        return through

    attempt(results, "file", lambda: Path(order["secret"]).read_text())
    attempt(results, "through a symbolic link", link(os.symlink))
    attempt(results, "through a hard link", link(os.link))
    attempt(results, "shadow", lambda: Path("/etc/shadow").read_text())
    attempt(results, "list the folder", lambda: os.listdir(os.path.dirname(order["secret"])))
    attempt(results, "list /tmp", _list_tmp)
    for name in ("environ", "cmdline", "maps", "mem"):
        attempt(results, f"the judge's {name}", lambda name=name: read_some(f"/proc/{order['judge']}/{name}"))
    attempt(results, "root of the judge", lambda: os.listdir(f"/proc/{order['judge']}/root/etc"))
    attempt(results, "init's environ", lambda: read_some(f"/proc/{os.getppid()}/environ"))
    return results


def write_outside(order, channel):
    results = {}
    folder, canary = order["folder"], order["canary"]
    for place in (folder, "/tmp", "/var/tmp", "/etc", "/usr/lib", os.path.dirname(os.__file__), "/proc/sys/kernel"):
        attempt(results, f"create in {place}", lambda place=place: Path(f"{place}/evil").write_text("x"))
    attempt(results, "append", lambda: os.close(os.open(canary, os.O_APPEND | os.O_WRONLY)))
    attempt(results, "truncate", lambda: os.truncate(canary, 0))
    attempt(results, "unlink", lambda: os.unlink(canary))
    attempt(results, "rename", lambda: os.rename(canary, "mine"))
    shutil.rmtree(folder, ignore_errors=True)
    for act in (
        lambda: os.chmod(canary, 0),
        lambda: os.chmod(os.__file__, 0),
        lambda: os.utime(canary, (0, 0)),
        lambda: os.setxattr(canary, "user.evil", b"x"),
    ):
        attempt({}, "metadata", act)  # some claim success where they do nothing: the judge looks at the file
    return results


def fork_bomb(order, channel):
    count = 0
    try:
        while True:
            if os.fork() == 0:
                try:
                    while True:
                        os.fork()
                except OSError:
                    time.sleep(100)
            count += 1
    except OSError as error:
        return {"forks": count, "error": error.strerror}


def thread_bomb(order, channel):
    count = 0
    try:
        while True:
            threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
            count += 1
    except RuntimeError:
        return {"threads": count}


def memory_bomb(order, channel):
    hoard = []
    while True:
        hoard.append(b"x" * (16 << 20))


def memory_bomb_in_forks(order, channel):
    while True:
        if os.fork() == 0:
            hoard = b"x" * (32 << 20)
            time.sleep(100)
            return hoard


def memory_bomb_of_shared_pages(order, channel):
    hoard = []
    while True:
        hoard.append(mmap.mmap(-1, 16 << 20))
        hoard[-1].write(b"x" * (16 << 20))
        hoard[-1].madvise(mmap.MADV_DONTNEED)  # the pages stay, but in no process's resident size


def memory_bomb_of_page_tables(order, channel):
    hoard = []
    no_reserve = 0x4000
    while True:
        hoard.append(mmap.mmap(-1, 16 << 30, mmap.MAP_PRIVATE | no_reserve))
        hoard[-1].madvise(15)  # MADV_NOHUGEPAGE
        for offset in range(0, 16 << 30, 2 << 20):
            hoard[-1][offset]  # reads map the one zero page, each in a table of its own


def memory_in_pipes(order, channel):
    pipes = []
    while True:
        try:
            pipes.append(os.pipe())
            os.set_blocking(pipes[-1][1], False)
            os.write(pipes[-1][1], b"x" * (1 << 20))
        except OSError:
            if os.fork():
                time.sleep(100)
            pipes.clear()
            os.closerange(4, 1 << 16)


def memory_in_nameless_files(order, channel):
    files = []
    while True:
        files.append(os.open("f", os.O_CREAT | os.O_RDWR))
        os.unlink("f")
        try:
            os.posix_fallocate(files[-1], 0, 4 << 20)
        except OSError:
            time.sleep(100)


def hoard_arenas(order, channel):
    while True:
        channel.send(b"[]")
        channel.receive()


def spin_deaf_to_signals(order, channel):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        pass


def stop_self(order, channel):
    if os.fork() == 0:
        os.kill(os.getppid(), signal.SIGSTOP)
        os._exit(0)
    time.sleep(100)


def daemon(order, channel):
    if os.fork() == 0:
        for detach in (os.setsid, lambda: os.setpgid(0, 0)):
            attempt({}, "detach", detach)
        if os.fork() == 0:
            os.closerange(0, 100)
            time.sleep(100)
        os._exit(0)
    time.sleep(0.05)
    os._exit(0)


def fork_and_sleep(order, channel):
    os.fork()
    os.fork()
    time.sleep(100)


def exit_0(order, channel):
    os._exit(0)


def flood_the_log(order, channel):
    while True:
        os.write(1, b"y" * 65536)


def paint_the_log(order, channel):
    os.write(1, b"before \x1b[2J\x1b]0;owned\x07\x9b31m \x00after\n")
    os._exit(3)


def fill_the_disk(order, channel):
    number = 0
    while True:
        number += 1
        try:
            with open(f"big{number}", "wb") as file:
                while True:
                    file.write(b"x" * (1 << 20))
        except OSError:
            time.sleep(0.01)


def many_files(order, channel):
    number = 0
    while True:
        number += 1
        try:
            os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY))
        except OSError as error:
            return error.strerror


def one_large_file(order, channel):
    results = {}
    attempt(results, "large file", lambda: os.posix_fallocate(os.open("f", os.O_CREAT | os.O_RDWR), 0, 32 << 20))
    return results


def deep_tree(order, channel):
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.mkdir("locked", 0)
    os._exit(0)


def signal_everyone(order, channel):
    results = {}
    for pid in (order["judge"], order["twin"], order["zygote"]):
        for number in (0, signal.SIGSTOP, signal.SIGKILL):
            attempt(results, f"{number:d} to {pid}", lambda pid=pid, number=number: os.kill(pid, number))
    limits = (8, 8)
    attempt(results, "limit the judge", lambda: resource.prlimit(order["judge"], resource.RLIMIT_NOFILE, limits))
    attempt({}, "kill -1", lambda: os.kill(-1, signal.SIGKILL))
    return results


def segfault(order, channel):
    ctypes.memset(0, 0, 8)


def regain_powers(order, channel):
    results = {}
    attempt(results, "new user namespace", lambda: libc("unshare", 0x10000000))
    attempt(results, "clone with namespaces", lambda: libc("syscall", 56, 0x10000000 | 17, 0, 0, 0, 0))
    attempt(results, "clone3", lambda: libc("syscall", 435, ctypes.create_string_buffer(88), 88))
    attempt(results, "mount", lambda: libc("mount", b"tmpfs", b"/usr", b"tmpfs", 0, None))
    attempt(results, "unmount proc", lambda: libc("umount2", b"/proc", 2))
    attempt(results, "chroot", lambda: os.chroot("/usr"))
    attempt(results, "setuid", lambda: os.setuid(0))
    attempt(results, "trace", lambda: libc("ptrace", 16, order["judge"], None, None))
    attempt(results, "memfd", lambda: os.memfd_create("hidden"))
    attempt(results, "seccomp off", lambda: libc("prctl", 22, 0, 0, 0, 0))
    attempt(results, "raise processes", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1 << 20, 1 << 20)))
    attempt(results, "device node", lambda: os.mknod("disk", 0o60600, os.makedev(8, 0)))
    attempt(results, "su", lambda: subprocess.run(["su", "-c", "id"], stdin=subprocess.DEVNULL, check=True))
    return results


def system_calls(order, channel):
    """Every call that nobody needs, some that no kernel has, and requests that reach beyond the sandbox."""
    results = {}
    column = syscalls.machine_index()
    numbers = {name: row[column] for name, row in syscalls.REFUSED.items() if row[column] is not None}
    numbers |= {f"number {number}": number for number in (471, 599, 0x40000000 + 1, 0x7FFFFFFF)}
    for name, number in numbers.items():
        attempt(results, name, lambda number=number: unfiltered("syscall", number, -1, -1, -1, -1, -1, -1))
    reader, writer = os.pipe()
    mine = os.open("mine", os.O_CREAT | os.O_RDWR)
    theirs = os.open(os.__file__, os.O_RDONLY)
    commands = {"larger pipe": (writer, 1031, 1 << 20), "signals for others": (reader, 8, order["judge"])}
    commands |= {"a deadly signal": (reader, 10, 9), "lease": (theirs, 1024, 0), "notice": (theirs, 1026, 2)}
    for name, command in commands.items():
        attempt(results, name, lambda command=command: unfiltered("fcntl", *command))
    requests = {"typing for others": (channel.fileno(), 0x5412, b"x"), "owner": (channel.fileno(), 0x8901, b"\1\0\0\0")}
    requests |= {"attributes": (theirs, 0x40086602, bytes(8)), "of mine": (mine, 0x40086602, bytes(8))}
    for name, request in requests.items():
        attempt(results, name, lambda request=request: unfiltered("ioctl", *request))
    return results


def huge_frame(order, channel):
    os.write(channel.fileno(), struct.pack("=II", 0xFFFFFFFF, 0))
    time.sleep(100)


def unasked_descriptors(order, channel):
    channel.send(b"{}", [0, 1, 2])
    time.sleep(100)


def half_a_frame(order, channel):
    os.write(channel.fileno(), struct.pack("=II", 100, 0) + b"half")
    os._exit(0)


def silence(order, channel):
    channel.close()
    time.sleep(100)


ACTS = {
    name: act
    for name, act in globals().items()
    if callable(act) and name not in ("main", "attempt", "libc", "unfiltered", "read_some", "Path")
}

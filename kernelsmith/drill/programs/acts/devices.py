"""Opens memory, disks, consoles and hypervisors; only null, zero's like and randomness may open."""

import glob
import os

from kernelsmith.drill.tools import attempt


def act(stage):
    names = [
        "mem",
        "kmem",
        "port",
        "kmsg",
        "sda",
        "vda",
        "nvme0",
        "loop0",
        "loop-control",
        "fuse",
        "kvm",
        "tty",
        "console",
        "ptmx",
    ]
    names += [
        "net/tun",
        "vhost-net",
        "uinput",
        "input/event0",
        "snapshot",
        "mapper/control",
        "rtc0",
        "hpet",
        "userfaultfd",
    ]
    for path in {
        *(f"/dev/{name}" for name in names),
        *glob.glob("/dev/vd*"),
        *glob.glob("/dev/sd*"),
        *glob.glob("/dev/bus/*/*/*"),
    }:
        for flags in (os.O_RDONLY, os.O_RDWR):
            attempt(stage, f"opened {path}", lambda path=path, flags=flags: os.open(path, flags))


def twin(stage):
    with open("/dev/null", "w") as null:
        null.write("x")
    assert len(open("/dev/urandom", "rb").read(8)) == 8

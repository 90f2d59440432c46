"""Forks without end; must run into its limit of processes, while a sibling goes on."""

import os
import resource
import subprocess
import sys
import time

ENDS = ("answered", "processes", "timeout", "memory")


def act(stage):
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if not 0 <= soft < 2000:
        resource.setrlimit(resource.RLIMIT_NPROC, (2000, hard))  # enough to see that nothing else holds
    forks = 0
    try:
        while True:
            if os.fork() == 0:
                try:
                    while True:
                        os.fork()
                except OSError:
                    time.sleep(100)
            forks += 1
    except OSError:
        if forks > 100:
            stage.boasts.append(f"made more than {forks} processes")


def twin(stage):
    children = [subprocess.Popen([sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE) for _ in range(3)]
    assert [child.communicate()[0] for child in children] == [b"1\n"] * 3

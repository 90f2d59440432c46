"""Becomes other programs, again and again, each forking; the limits and the end must follow."""

import os

ENDS = ("timeout", "exited", "processes", "killed")
SECONDS = 1.0


def act(stage):
    with open("again.sh", "w") as file:
        file.write("#!/bin/sh\nsleep 100 &\nexec /bin/sh ./again.sh\n")
    os.execv("/bin/sh", ["sh", "again.sh"])


def twin(stage):
    if (pid := os.fork()) == 0:
        os.execv("/bin/sh", ["sh", "-c", "exit 7"])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

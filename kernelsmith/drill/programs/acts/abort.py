"""Aborts, with a core file asked for; there must be none."""

import os
import resource

ENDS = ("signalled",)


def act(stage):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        stage.boasts.append("may write core files")
    except (ValueError, OSError):
        pass
    os.abort()


def twin(stage):
    if (pid := os.fork()) == 0:
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5

"""A machine that has no room for one more process when the zygote forks for the second time."""

import errno
import os

_fork, _left = os.fork, [True, False]


def _refusing():
    if _left and not _left.pop(0):
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return _fork()


os.fork = _refusing

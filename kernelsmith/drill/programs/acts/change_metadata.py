"""Changes modes, owners, times and attributes outside its scratch; they may claim success but must do nothing."""

import os

from kernelsmith.drill.tools import harmless


def act(stage):
    harmless(lambda: os.chmod(os.__file__, os.stat(os.__file__).st_mode))  # shows in the time of change alone
    for path in (stage.canary, stage.secret, stage.folder):
        harmless(lambda path=path: os.chmod(path, 0o4777))
        harmless(lambda path=path: os.chown(path, os.getuid(), os.getgid()))
        harmless(lambda path=path: os.utime(path, (0, 0)))
        harmless(lambda path=path: os.setxattr(path, "user.evil", b"x"))
        harmless(lambda path=path: os.link(path, "hard"))


def twin(stage):
    with open("mine", "w") as file:
        file.write("x")
    os.chmod("mine", 0o700)
    os.utime("mine", (0, 0))

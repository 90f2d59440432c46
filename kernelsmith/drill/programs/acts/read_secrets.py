"""Reads other people's files, directly and through links; none may open, its own scratch and torch's files do."""

import os
from pathlib import Path

from kernelsmith.drill.tools import attempt


def act(stage):
    def through(make):
        make(stage.secret, "link")
        return Path("link").read_text()

    attempt(stage, "read a file outside", lambda: Path(stage.secret).read_text())
    attempt(stage, "read through a symbolic link", lambda: through(os.symlink))
    attempt(stage, "read through a hard link", lambda: through(os.link))
    attempt(stage, "read beside the scratch", lambda: Path("../" * 9 + stage.secret[1:]).read_text())
    attempt(stage, "listed a folder outside", lambda: os.listdir(stage.folder))
    for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/proc/kcore", "/proc/kmsg", "/root/.bashrc"):
        attempt(stage, f"read {path}", lambda path=path: open(path, "rb").read(9))
    for path in ("/home", "/var/log", "/run", "/var/lib"):
        attempt(stage, f"listed {path}", lambda path=path: os.listdir(path))


def twin(stage):
    Path("mine").write_text("text")
    assert Path("mine").read_text() == "text"
    assert Path(os.__file__).read_text() and os.listdir("/usr/lib")

"""Fills files that have no name any more, so that no walk through folders finds them; they must be counted."""

import os

ENDS = ("answered", "disk", "memory", "processes", "timeout")
SECONDS = 3.0


def act(stage):
    held = 0
    try:
        for _ in range(900):
            file = os.open("gone", os.O_CREAT | os.O_RDWR)
            os.unlink("gone")
            for _ in range(7):
                held += os.write(file, b"x" * (1 << 20))
            if held > 128 << 20:
                stage.boasts.append(f"holds {held >> 20} MiB in files without a name")
                break
    except OSError:
        pass
    return held


def twin(stage):
    file = os.open("gone", os.O_CREAT | os.O_RDWR)
    os.unlink("gone")
    os.write(file, b"x" * 4096)

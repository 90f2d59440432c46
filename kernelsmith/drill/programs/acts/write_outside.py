"""Makes, changes, truncates, renames and deletes files outside its scratch; none may change, its own do."""

import os
import shutil
from pathlib import Path

from kernelsmith.drill.tools import attempt, harmless


def act(stage):
    places = (
        stage.folder,
        stage.folder + "/sub",
        "/tmp",
        "/var/tmp",
        "/etc",
        "/usr/lib",
        "/run",
        "/",
        "/proc/sys/kernel",
    )
    for place in (*places, os.path.dirname(os.__file__)):
        path = f"{place}/{stage.mark}-evil"
        if attempt(stage, f"made a file in {place}", lambda path=path: Path(path).write_text("x")):
            os.unlink(path)
        if attempt(stage, f"made a folder in {place}", lambda path=path: os.mkdir(path) or True):
            os.rmdir(path)
    harmless(lambda: Path(f"/dev/shm/{stage.mark}-evil").write_text("x"))  # may be its own scratch
    attempt(stage, "appended", lambda: os.close(os.open(stage.canary, os.O_APPEND | os.O_WRONLY)))
    attempt(stage, "truncated", lambda: os.truncate(stage.canary, 0))
    attempt(stage, "removed", lambda: os.unlink(stage.canary))
    attempt(stage, "renamed", lambda: os.rename(stage.canary, "mine"))
    attempt(stage, "replaced", lambda: os.rename("/scratch/x", stage.canary))
    harmless(lambda: shutil.rmtree(stage.folder, ignore_errors=True))


def twin(stage):
    Path("a").write_text("x")
    os.rename("a", "b")
    os.truncate("b", 0)
    os.mkdir("folder")
    shutil.rmtree("folder")
    os.unlink("b")

"""Watches shared files and folders for what others do; no other candidate's or judge's file may be among them."""

from kernelsmith.drill.tools import attempt, harmless, libc


def act(stage):
    watcher = harmless(lambda: libc("inotify_init1", 0))
    if watcher is not None:
        for path in (stage.folder, stage.canary, f"/proc/{stage.judge}", "/tmp", "/home"):
            attempt(
                stage, f"watches {path}", lambda path=path: libc("inotify_add_watch", watcher, path.encode(), 0xFFF)
            )


def twin(stage):
    open("mine", "w").close()

"""A role with something to warm up."""

import os
from pathlib import Path

calls = 0


def count():
    """Run once in the zygote; what it leaves in the temporary folder can be read by children: what it found built."""
    global calls
    calls += 1
    os.environ["WARM_FILE"] = f"{os.environ['TMPDIR']}/left-by-warm"
    built = Path(os.environ["XDG_CACHE_HOME"], "kernelsmith").glob("*.so")
    Path(os.environ["WARM_FILE"]).write_text("folder kept" + "".join(f", {path.read_text()}" for path in built))


def main(channel, scratch):
    """Say how often `count` ran, what it left, and how many ways there are to change that."""
    channel.receive()
    left = Path(os.environ["WARM_FILE"])
    kept, ways = left.read_text(), 0
    for change in (
        lambda: left.write_text("evil"),
        left.unlink,
        lambda: left.with_name("sitecustomize.py").write_text(""),
    ):
        try:
            change()
            ways += 1
        except OSError:
            pass
    channel.send(f"{calls} {kept} {ways}".encode())
    channel.receive()

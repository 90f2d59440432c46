"""A role with something to warm up."""

import os
from pathlib import Path

calls = 0


def count():
    """Run once in the zygote; what it leaves in the temporary folder can be read by children."""
    global calls
    calls += 1
    os.environ["WARM_FILE"] = f"{os.environ['TMPDIR']}/left-by-warm"
    Path(os.environ["WARM_FILE"]).write_text("folder kept")


def main(channel, scratch):
    """Say how often `count` ran and what it left."""
    channel.receive()
    channel.send(f"{calls} {Path(os.environ['WARM_FILE']).read_text()}".encode())
    channel.receive()

"""Looks for secrets in the memory and environment that it was forked with; nothing secret may be in either."""

import os
import re
from pathlib import Path


def act(stage):
    stage.loot.append(repr(dict(os.environ)))
    if not os.path.exists("/proc/self"):  # empty where parts of /proc are covered and Landlock is missing
        return
    stage.loot.append(repr(Path("/proc/self/environ").read_bytes()))
    pattern = re.compile(stage.prefix.encode() + b"[0-9a-f]{32}")
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, *_ = line.split()
        start, end = (int(part, 16) for part in span.split("-"))
        if access[0] == "r" and "[v" not in line and end - start < 1 << 28:
            try:
                found = pattern.findall(os.pread(memory, end - start, start))
            except (OSError, OverflowError):
                continue
            stage.loot += map(repr, found)


def twin(stage):
    assert {"HOME", "TMPDIR", "PATH"} <= os.environ.keys()

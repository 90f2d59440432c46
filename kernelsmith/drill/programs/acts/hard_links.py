"""Links other people's files into its scratch, to change them there; their link count must stay."""

import os

from kernelsmith.drill.tools import harmless


def act(stage):
    for number, path in enumerate((stage.canary, stage.secret, os.__file__, "/usr/bin/env")):
        if harmless(lambda number=number, path=path: os.link(path, f"link{number}") or True):
            stage.boasts.append(f"linked {path}")
    harmless(lambda: os.truncate("link0", 0))


def twin(stage):
    open("mine", "w").close()
    os.link("mine", "again")
    assert os.stat("mine").st_nlink == 2

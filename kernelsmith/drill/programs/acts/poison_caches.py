"""Leaves code where a later candidate or the judge would import it; nothing may be written there."""

import os
import sys
from pathlib import Path

from kernelsmith.drill.tools import attempt


def act(stage):
    folders = {*filter(os.path.isdir, sys.path), "/warm", os.path.dirname(os.__file__) + "/site-packages"}
    folders |= {
        os.path.dirname(module.__file__) for module in [*sys.modules.values()] if getattr(module, "__file__", None)
    }
    folders -= {"", os.getcwd(), str(stage.scratch)}
    for folder in folders:
        for name in (f"{stage.mark}.pth", f"__pycache__/{stage.mark}.pyc"):
            path = Path(folder, name)
            if attempt(stage, f"wrote {path}", lambda path=path: path.write_text("# evil")):
                path.unlink()


def twin(stage):
    Path("honest.py").write_text("value = 7")
    sys.path.insert(0, str(stage.scratch))
    import honest

    assert honest.value == 7

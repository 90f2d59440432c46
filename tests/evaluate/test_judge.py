"""The judge's process ends when its controller hangs up, whatever an operator file is doing."""

from __future__ import annotations

import time
from pathlib import Path

from kernelsmith.execute.start import Order, start
from kernelsmith.execute.wire import Describe
from kernelsmith.model import OperatorRef


def test_an_operator_that_never_loads_does_not_keep_the_judge(tmp_path: Path) -> None:
    began = tmp_path / "began"
    path = tmp_path / "op.py"
    path.write_text(f"open({str(began)!r}, 'w').close()\nimport time\ntime.sleep(1000)\n")
    started = start(Order(target="cpu"))
    try:
        started.channel.send(Describe(id=1, operator=OperatorRef(path=str(path))).model_dump_json().encode())
        deadline = time.monotonic() + 60
        while not began.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert began.exists()
        started.channel.close()
        assert started.process.wait(60) is not None
    finally:
        started.process.kill()
        started.process.wait()
        started.log.close()
        started.clear()

"""What other tools find in the same cases: ttsem, and the sanitizer of tilelens.

They are development aids, fetched by hand (`pip install --target DIR ttsem tilelens`, `--aids DIR`) and never needed.
Each case runs in a process of its own with a time limit; those processes are forks of one that has imported the tool,
since the imports take longer than the cases. (tilelens 3.1.1 also has a command `tile-race`, which records accesses and
judges none of them yet; ttsem fills memory that nobody wrote with NaN, for a test of values to see, and reports no read
of it.)
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

TOOLS = ("ttsem", "tilelens")
PROGRAM = Path(__file__).parent / "checked_program.py"
SECONDS = 20.0
"""That a case may take; a few do not end."""
END = "=== end of"


class Said(StrEnum):
    """What a tool says of a case."""

    FAULT = "fault"
    NOTHING = "nothing"
    CANNOT = "cannot run"
    TIMEOUT = "no end"


def ask(tool: str, references: Sequence[str], aids: Path, triton: Path | None) -> Iterator[tuple[str, Said, str]]:
    """Reference, answer and last words per case; `triton` is a folder with the Triton that the tool is made for."""
    root = Path(__file__).parents[2]
    path = [str(aids), *([str(triton)] if triton else []), str(root)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, "-m", "benchmarks.triton_cpu.checked_aids", tool, *references]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        lines: list[str] = []
        left = list(references)
        for text in worker.stdout:
            if not text.startswith(END):
                lines.append(text.rstrip())
                continue
            yield left.pop(0), *_answer(tool, text.split()[-1], lines)
            lines = []
    for reference in left:
        yield reference, Said.CANNOT, "the tool could not be started"


def _answer(tool: str, ending: str, lines: list[str]) -> tuple[Said, str]:
    text = "\n".join(lines)
    last = next((line for line in reversed(lines) if line.strip()), "")
    if ending == "timeout":
        return Said.TIMEOUT, last
    if tool == "ttsem":
        verdict = re.search(r"^(\w+): \d+ launch", text, re.MULTILINE)
        if verdict is None or verdict[1] in ("unsupported", "error"):
            return Said.CANNOT, last
        return (Said.NOTHING, "") if verdict[1] == "ok" else (Said.FAULT, verdict[1])
    if "Diagnostic Report" in text:
        return Said.FAULT, "out of bounds"
    return (Said.NOTHING, "") if ending == "0" else (Said.CANNOT, last)


# ---------------------------------------------------------------- the process that holds the tool


def serve(tool: str, references: Sequence[str]) -> None:
    """Run each case in a fork, its output on ours, one line behind each that says how it ended."""
    start = _entry(tool)
    for reference in references:
        print(f"\n{END} {reference} {_forked(start, reference)}", flush=True)


def _entry(tool: str) -> Callable[[], object]:
    """The tool's own command; whatever it needs is imported by now."""
    if tool == "ttsem":
        from ttsem import sanitize  # type: ignore[import-not-found]

        start: Callable[[], object] = sanitize.main
    else:
        from tilelens import wrapper  # type: ignore[import-not-found]

        start = wrapper.apply_sanitizer
    import torch  # noqa: F401 - once, before the forks

    return start


def _forked(start: Callable[[], object], reference: str) -> str:
    """How a case ended: its exit code, or `timeout`."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(1, 2)
        sys.argv = ["tile-sanitizer", str(PROGRAM), reference]  # tilelens looks at the name it is called by
        os._exit(_run(start))
    with contextlib.closing(_Pidfd(child)) as pidfd:
        ended = pidfd.wait(SECONDS)
        if not ended:
            os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return str(os.waitstatus_to_exitcode(status)) if ended else "timeout"


class _Pidfd:
    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    def wait(self, seconds: float) -> bool:
        return bool(select.select([self._fd], [], [], seconds)[0])

    def close(self) -> None:
        os.close(self._fd)


def _run(start: Callable[[], object]) -> int:
    code = 0
    try:
        code = int(start() or 0)  # type: ignore[call-overload]
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - whatever a tool raises is its answer
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])

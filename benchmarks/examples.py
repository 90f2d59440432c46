"""Every example tuned offline: does it end with a kernel faster than eager, and than torch.compile?

    python -m benchmarks.examples [--max-time 90s] [NAME ...]

Prints one line per example (score against the best baseline, then against each) and a summary.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def tune(operator: Path, max_time: str) -> dict[str, object]:
    """The last record of a run."""
    with tempfile.TemporaryDirectory() as runs:
        command = [sys.executable, "-m", "kernelsmith", "tune", str(operator), "--json", "--runs", runs]
        said = subprocess.run([*command, "--max-time", max_time], capture_output=True, text=True, check=False)
    lines = said.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {"exit_code": said.returncode, "message": said.stderr[-300:]}


def speedups(result: dict[str, object]) -> dict[str, float]:
    """Against each baseline, the weighted geometric mean over the workloads."""
    winner = result.get("winner")
    return winner["speedup"] if isinstance(winner, dict) else {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--max-time", default="90s")
    arguments = parser.parse_args()
    names = arguments.names or sorted(p.stem for p in EXAMPLES.glob("*.py"))
    beat_eager = beat_best = 0
    for name in names:
        means = speedups(tune(EXAMPLES / f"{name}.py", arguments.max_time))
        best = min(means.values(), default=None)
        beat_eager += means.get("eager", 0.0) > 1
        beat_best += best is not None and best > 1
        shown = ", ".join(f"{k} {v:.2f}x" for k, v in means.items()) or "no kernel"
        print(f"{name:20} {shown}", flush=True)
    print(f"{len(names)} examples: {beat_eager} faster than eager, {beat_best} faster than the best baseline")


if __name__ == "__main__":
    main()

"""What the loop itself costs: the share of a run that is neither model nor compiling, checking or measuring.

    python -m benchmarks.overhead [OPERATOR] [--trials N]

Tunes one operator offline, one trial at a time, and prints JSON: wall seconds of the loop from its first to its last
record, seconds by stage summed over the trials, and the rest as a share of the whole.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OPERATOR = Path(__file__).parents[1] / "examples" / "swiglu.py"


def measure(operator: Path, trials: int) -> dict[str, float]:
    """Run it and account for every second between the first call and the last verdict of the search."""
    stages = {"compile": 0.0, "check": 0.0, "bench": 0.0, "other in the judge": 0.0}
    model = 0.0
    first = last = None
    with tempfile.TemporaryDirectory() as runs:
        command = [sys.executable, "-m", "kernelsmith", "tune", str(operator), "--json", "--runs", runs]
        command += ["--max-trials", str(trials), "--width", "1", "--seed", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                record = json.loads(line)
                now = time.monotonic()
                if record["record"] == "call" and first is None:
                    first = now
                if record["record"] == "reply" and record["status"] == "answered":
                    model += record["usage"]["seconds"]
                if record["record"] == "trial" and record["level"] == "quick":
                    last = now
                    verdict = Path(record["kernel"]).with_name("evaluation.json")
                    seconds = json.loads(verdict.read_text())["seconds"]
                    for stage in ("compile", "check", "bench"):
                        stages[stage] += seconds[stage]
                    known = seconds["compile"] + seconds["check"] + seconds["bench"]
                    stages["other in the judge"] += seconds["total"] - known
    if first is None or last is None:
        raise SystemExit("the run made no trial")
    wall = last - first
    work = model + stages["compile"] + stages["check"] + stages["bench"]
    shown = {name: round(value, 2) for name, value in stages.items()}
    return {"wall_s": round(wall, 2), **shown, "model": round(model, 2), "overhead_share": round(1 - work / wall, 3)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("operator", nargs="?", type=Path, default=OPERATOR)
    parser.add_argument("--trials", type=int, default=4)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.operator, arguments.trials)))


if __name__ == "__main__":
    main()

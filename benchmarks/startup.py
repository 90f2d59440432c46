"""How long `kernelsmith --help` takes, and that it imports nothing heavy.

    python -m benchmarks.startup [--rounds N]

Prints JSON: medians in milliseconds of `kernelsmith --help`, `python -c pass` and `python -c "import torch"`, run by
turns, and which heavy modules the first one imported (none).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

HEAVY = ("torch", "triton", "openai", "anthropic", "numpy")
COMMANDS = {
    "help": [sys.executable, "-m", "kernelsmith", "--help"],
    "python": [sys.executable, "-c", "pass"],
    "torch": [sys.executable, "-c", "import torch"],
}
PROBE = (
    "import sys\n"
    "sys.argv = ['kernelsmith', '--help']\n"
    "try:\n"
    "    from kernelsmith.__main__ import main\n"
    "    main()\n"
    "except SystemExit:\n"
    f"    print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
)


def milliseconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000


def measure(rounds: int) -> dict[str, object]:
    """Medians, and what was imported."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            times[name].append(milliseconds(command))
    said = subprocess.run([sys.executable, "-c", PROBE], check=False, capture_output=True, text=True)
    medians = {f"{name}_ms": round(statistics.median(values), 1) for name, values in times.items()}
    return {**medians, "heavy_modules_imported": said.stderr.strip()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    print(json.dumps(measure(parser.parse_args().rounds)))


if __name__ == "__main__":
    main()

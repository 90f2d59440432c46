"""`python -m benchmarks`: every quick figure, under its name."""

from __future__ import annotations

import subprocess
import sys

FIGURES = ("benchmarks.startup", "benchmarks.sandbox", "benchmarks.overhead")

missed = []
for figure in FIGURES:
    print(figure, flush=True)
    missed.append(subprocess.run([sys.executable, "-m", figure], check=False).returncode)
raise SystemExit(max(missed))

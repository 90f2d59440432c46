"""`python -m benchmarks`: every quick figure, one JSON object per line, named."""

from __future__ import annotations

import subprocess
import sys

FIGURES = ("benchmarks.startup", "benchmarks.sandbox_start", "benchmarks.overhead")

for figure in FIGURES:
    print(figure, flush=True)
    subprocess.run([sys.executable, "-m", figure], check=True)

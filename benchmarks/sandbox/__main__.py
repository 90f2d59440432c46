"""Every goal of the sandbox, measured here and now.

    python -m benchmarks.sandbox [--rounds N] [--json]

Prints a table, or with `--json` one object with a list of lines; ends with 1 where a goal is missed. Ratios are against
baselines of the same run. The machine should be idle: what runs beside it is measured too.
"""

from __future__ import annotations

import argparse
import json

from benchmarks.sandbox import accuracy, start, transfer, verdicts
from benchmarks.sandbox.line import table

MEASURES = (start.lines, verdicts.lines, transfer.lines, accuracy.lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lines = [line for measure in MEASURES for line in measure(options.rounds)]
    print(json.dumps({"lines": [line.as_json() for line in lines]}, indent=2) if options.json else table(lines))
    raise SystemExit(not all(line.reached for line in lines))


if __name__ == "__main__":
    main()

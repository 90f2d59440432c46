"""`python -m benchmarks.triton_cpu TABLE [options]`: one of the backend's tables; or `all` of those without sources.

Every table prints one JSON object per row on standard output and ends with 0 if it reaches its goal, 1 if not.
"""

from __future__ import annotations

import importlib
import sys

TABLES = {
    "language": "Triton's own language tests",
    "tutorials": "Triton's tutorials",
    "inductor": "PyTorch's OpInfo samples through TorchInductor",
    "libraries": "kernels of well-known libraries",
    "speed": "speed against PyTorch",
    "interpreter": "speed against Triton's interpreter",
    "compile": "compile time, cached start, launch overhead",
    "checked": "verdicts and cost of checked builds",
}
NEEDS_SOURCES = ("language", "tutorials", "libraries")


def run(table: str, arguments: list[str]) -> int:
    """Print one table; its exit code."""
    module = importlib.import_module(f"benchmarks.triton_cpu.{table}")
    code = module.main(arguments)
    return int(code or 0)


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in TABLES:
        return run(arguments[0], arguments[1:])
    if arguments == ["all"]:
        return max(run(table, []) for table in TABLES if table not in NEEDS_SOURCES)
    lines = [f"  {name:12} {what}" for name, what in TABLES.items()]
    print("\n".join([str(__doc__), *lines]), file=sys.stderr)
    return 0 if arguments in (["--help"], ["-h"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

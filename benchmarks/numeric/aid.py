"""kernel_tuner (van Werkhoven 2019) on the same measured times, in its simulation mode: nothing is compiled or run."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.numeric.spaces import LARGEST, Kernels

STRATEGY = "genetic_algorithm"
"""One of those that its authors found best on most spaces (Schoonhoven et al., arXiv 2210.01465)."""
_SOURCE = 'extern "C" __global__ void kernel(float *x) { }'


def kernel_tuner(kernels: Kernels, times: Mapping[tuple[int, ...], float], count: int, seed: int) -> float:
    """The best time among the first `count` configurations that the strategy asks for."""
    import random

    import kernel_tuner as tuner
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    names = list(kernels.values)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        cache = Path(folder) / "times.json"
        cache.write_text(json.dumps(_cache(kernels, times)))
        results, _ = tuner.tune_kernel(
            "kernel",
            _SOURCE,
            (1,),
            [np.zeros(1, np.float32)],
            {name: list(kernels.values[name]) for name in names},
            restrictions=[f"{' * '.join(kernels.block)} <= {LARGEST}"] if kernels.block else [],
            strategy=STRATEGY,
            strategy_options={"max_fevals": count, "popsize": min(20, count // 2)},
            simulation_mode=True,
            cache=str(cache),
            lang="CUDA",
            verbose=False,
        )
    found = [row["time"] for row in results if isinstance(row["time"], float)]
    return min(found[:count])


def _cache(kernels: Kernels, times: Mapping[tuple[int, ...], float]) -> dict[str, object]:
    """As kernel_tuner writes the results of a run."""
    names = list(kernels.values)
    rows = {}
    for point, ms in times.items():
        values = {name: axis[i] for (name, axis), i in zip(kernels.values.items(), point, strict=True)}
        zeros = dict.fromkeys(
            ("compile_time", "verification_time", "benchmark_time", "framework_time", "strategy_time"), 0
        )
        stamp = {"timestamp": "2026-01-01 00:00:00+00:00", "times": [ms]}
        rows[",".join(str(values[name]) for name in names)] = {**values, "time": ms, **stamp, **zeros}
    return {
        "schema_version": "1.0.0",
        "device_name": "processor",
        "kernel_name": "kernel",
        "problem_size": [1],
        "tune_params_keys": names,
        "tune_params": {name: list(kernels.values[name]) for name in names},
        "objective": "time",
        "cache": rows,
    }

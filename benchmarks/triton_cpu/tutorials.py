"""`python -m benchmarks.triton_cpu tutorials --sources DIR`: Triton's tutorials, unmodified but for the device.

DIR holds the tutorials: `git clone https://github.com/triton-lang/triton` (or triton-lang/triton-cpu) and give its
python/tutorials. Each runs in a process of its own with "cuda" meaning the CPU (`as_cuda`), its plots left out, and
is judged by its own assertions, its own printed verdicts, or, where it only prints numbers, by the same comparison.
Ends with 0 if every tutorial of the goal is right.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import itertools
import json
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TIME_LIMIT_S = 900
_MARKER = "tutorial-row: "


@dataclass(frozen=True)
class Row:
    """One tutorial, or one part of it. `outcome` is right, wrong or cannot; `detail` says what was compared or why."""

    tutorial: str
    part: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True)
class Tutorial:
    """A file, and how it is judged after its module body ran: `check(module, what it printed)` yields rows."""

    name: str
    file: str
    check: Callable[[Any, str], Iterator[Row]]
    goal: bool = True


def _row(part: str, right: bool, detail: str = "") -> Row:
    return Row("", part, "right" if right else "wrong", detail)


def printed_difference(module: Any, text: str) -> Iterator[Row]:
    """Tutorials that print the largest difference to PyTorch."""
    found = [float(value) for value in re.findall(r"maximum difference between [^\n]*? is ([\d.e+-]+|nan)", text)]
    yield _row("values", bool(found) and max(found) <= 1e-6, f"largest printed differences: {found}")


def own_assertions(module: Any, text: str) -> Iterator[Row]:
    """Tutorials whose module body asserts: reaching its end is the verdict."""
    yield _row("own assertions", True)


def printed_icons(module: Any, text: str) -> Iterator[Row]:
    """Tutorials that print a tick or a cross per comparison."""
    yield _row("printed verdicts", "✅" in text and "❌" not in text, f"{text.count('✅')} right")


def dropout(module: Any, text: str) -> Iterator[Row]:
    """The tutorial only prints tables: the same tensors are compared with what they must be."""
    kept = [value / (1 - module.p) for value in module.x.tolist()]
    outputs = [tensor.tolist() for tensor in (module.output, module.output2, module.output3)]
    near = all(
        out == 0 or abs(out - want) <= 1e-6 * abs(want) for row in outputs for out, want in zip(row, kept, strict=True)
    )
    yield _row("values", near, "each output is 0 or x / (1 - p)")
    yield _row("seeds", outputs[0] == outputs[1] != outputs[2], "equal for equal seeds, different for another")


def fused_attention(module: Any, text: str) -> Iterator[Row]:
    """The tutorial's own test, with its own parameters up to Z=1, H=2, N_CTX=1024 of its 4, 48, 4096."""
    cases = itertools.product([128, 1024], [64, 128], [False, True], [("fwd", "triton-fp8"), ("bwd", "triton-fp16")])
    for n_ctx, head_dim, causal, (mode, provider) in cases:
        part = f"{mode} {provider} N_CTX={n_ctx} HEAD_DIM={head_dim} causal={causal}"
        with _verdict(part) as rows:
            module.test_op(1, 2, n_ctx, head_dim, causal, False, mode, provider)
        yield from rows


def grouped_gemm(module: Any, text: str) -> Iterator[Row]:
    """Its own assertions, and the part with tensor descriptors, which it runs where `supports_tma()` says so."""
    yield _row("pointers (own assertions)", True)
    module.supports_tma = lambda: True
    with _verdict("tensor descriptors") as rows:
        result = module.group_gemm_tma_fn(module.group_A, module.group_B_T)
        for want, got in zip(module.ref_out, result, strict=True):
            assert module.torch.allclose(want, got, atol=1e-2, rtol=1e-2)
    yield from rows


def persistent_matmul(module: Any, text: str) -> Iterator[Row]:
    """Its `validate`, tensor descriptors included, for fp16 and fp8; 1024x1024x512 instead of 8192x8192x512."""
    module.HAS_TENSOR_DESC = module.HAS_HOST_TENSOR_DESC = True
    for dtype in (module.torch.float16, module.torch.float8_e4m3fn):
        for size in ((32, 32, 32), (1024, 1024, 512)):
            with _verdict(f"{dtype} {size}") as rows, contextlib.redirect_stdout(io.StringIO()) as printed:
                module.validate(*size, dtype)
                icons = printed.getvalue()
                assert "❌" not in icons and icons.count("✅") >= 4, icons
            yield from rows


def block_scaled(module: Any, text: str) -> Iterator[Row]:
    """Its `validate_block_scaled`, at 512x512x512 instead of 8192x8192x8192."""
    module.supports_block_scaling = lambda: True
    module.cublas = None
    for kind in ("mxfp4", "nvfp4", "mxfp8", "mixed"):
        with _verdict(kind) as rows:
            module.validate_block_scaled(512, 512, 512, kind)
        yield from rows


TUTORIALS = (
    Tutorial("vector add", "01-vector-add.py", printed_difference),
    Tutorial("fused softmax", "02-fused-softmax.py", own_assertions),
    Tutorial("matmul", "03-matrix-multiplication.py", printed_icons),
    Tutorial("dropout", "04-low-memory-dropout.py", dropout),
    Tutorial("layer norm forward and backward", "05-layer-norm.py", own_assertions),
    Tutorial("fused attention", "06-fused-attention.py", fused_attention),
    Tutorial("extern functions", "07-extern-functions.py", printed_difference, goal=False),
    Tutorial("grouped gemm", "08-grouped-gemm.py", grouped_gemm),
    Tutorial("persistent matmul", "09-persistent-matmul.py", persistent_matmul),
    Tutorial("block-scaled matmul", "10-block-scaled-matmul.py", block_scaled, goal=False),
    Tutorial("programmatic dependent launch", "11-programmatic-dependent-launch.py", own_assertions, goal=False),
)


@contextlib.contextmanager
def _verdict(part: str) -> Iterator[list[Row]]:
    """Runs one part; the list it gives holds its row afterwards."""
    rows: list[Row] = []
    try:
        yield rows
    except Exception as error:  # noqa: BLE001 - whatever a tutorial raises is its verdict
        rows.append(_failure(part, error))
    else:
        rows.append(_row(part, True))


def _failure(part: str, error: Exception) -> Row:
    """An assertion is a wrong value; anything else is something that could not be done."""
    kind = type(error).__name__
    message = " ".join(f"{kind}: {error}".split())[:400]
    return Row("", part, "wrong" if isinstance(error, AssertionError) else "cannot", message)


def _stand_ins() -> None:
    """What tutorials import or call only to show: tables and plots; and the calls by which triton-cpu picks devices."""
    import triton
    import triton.testing

    if importlib.util.find_spec("tabulate") is None:
        tabulate: Any = types.ModuleType("tabulate")
        tabulate.tabulate = lambda rows, **_: "\n".join(map(str, rows))
        sys.modules["tabulate"] = tabulate
    triton.testing.Mark.run = lambda *_, **__: None
    driver: Any = triton.runtime.driver
    driver.set_active_to_cpu = driver.set_active_to_gpu = lambda: None
    driver.get_active_gpus = list
    config = triton.Config.__init__

    def init(self: Any, *args: Any, num_cpu_threads: int = 0, **options: Any) -> None:
        config(self, *args, **options)

    triton.Config.__init__ = init


def _run_one(tutorial: Tutorial, sources: Path) -> Iterator[Row]:
    """In the child: run the file, then judge it."""
    from benchmarks.triton_cpu import as_cuda

    as_cuda.pretend(shown=False)
    _stand_ins()
    spec = importlib.util.spec_from_file_location("tutorial", sources / tutorial.file)
    assert spec is not None and spec.loader is not None
    module = sys.modules["tutorial"] = importlib.util.module_from_spec(spec)
    printed = io.StringIO()
    with _verdict("module") as rows, contextlib.redirect_stdout(printed):
        spec.loader.exec_module(module)
    (body,) = rows
    if body.outcome != "right":
        yield body
    if body.outcome == "right" or "unknown backend" in body.detail:  # 07's second half: NVIDIA's and AMD's own files
        yield from tutorial.check(module, printed.getvalue())


def measure(tutorial: Tutorial, sources: Path) -> list[Row]:
    """One tutorial in a child process: its rows, and one more if it crashes or hangs."""
    if not (sources / tutorial.file).exists():
        return [Row(tutorial.name, "module", "cannot", f"no {tutorial.file} in {sources}")]
    command = [sys.executable, "-m", __spec__.name, "--sources", str(sources), "--one", tutorial.name]
    trouble = ""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        try:
            done = subprocess.run(command, stdout=output, stderr=errors, timeout=TIME_LIMIT_S, check=False)
            if done.returncode != 0:
                errors.seek(0)
                trouble = f"ended with {done.returncode}: {errors.read()[-400:]}"
        except subprocess.TimeoutExpired:
            trouble = f"not finished after {TIME_LIMIT_S} s"
        output.seek(0)
        lines = [line.removeprefix(_MARKER) for line in output if line.startswith(_MARKER)]
    rows = [Row(**{**json.loads(line), "tutorial": tutorial.name}) for line in lines]
    return [*rows, Row(tutorial.name, "rest", "cannot", trouble)] if trouble else rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True, help="python/tutorials of github.com/triton-lang/triton")
    parser.add_argument("--only", help="tutorials whose name contains this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        (tutorial,) = [each for each in TUTORIALS if each.name == options.one]
        for row in _run_one(tutorial, options.sources):
            print(_MARKER + json.dumps(asdict(row)), flush=True)
        return 0
    reached = True
    for tutorial in TUTORIALS:
        if options.only and options.only not in tutorial.name:
            continue
        rows = measure(tutorial, options.sources)
        reached &= not tutorial.goal or all(row.outcome == "right" for row in rows)
        for row in rows:
            print(json.dumps(asdict(row)), flush=True)
            mark = {"right": "+", "wrong": "-", "cannot": "?"}[row.outcome]
            print(f"{mark} {row.tutorial}: {row.part} {row.detail}"[:160], file=sys.stderr)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Does the cost model order kernels as a clock does? Spearman's rank correlation of estimate and measured time.

    python -m benchmarks.cost [--device cpu] [--seconds 1.0] [--keep FOLDER] [FAMILY ...]

Each family is one operator and at least 30 right kernels for it that differ in what the model sees: block sizes, reads
that are repeated, strides, special functions, tiles. They are judged and timed as in a run, one after another; work is
counted as `--without-device` counts it, and the estimate is made with the device's measured bandwidth and, on the CPU,
with this machine's cores. One line per family, and the variants that are ranked worst. What was counted and measured is
kept in FOLDER, and a family that is there is only estimated again. Kernels are ranked by their time over eager's, which
is measured in turn with theirs. Nothing is a test: a busy machine spoils it, less so on one core (`taskset -c 0`).
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.base import Frozen
from kernelsmith.compiled import Build
from kernelsmith.estimate import Counts
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Job, OperatorRef
from kernelsmith.offline import cost
from kernelsmith.offline.fit import chip_of
from kernelsmith.outcome import Outcome
from kernelsmith.targets import Target

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
OPERATOR_HEAD = "import torch\nfrom kernelsmith import Dim, operator, tensor, workload\n\n"
FLOPS_PER_CORE = 64e9
"""Float32 of a core with 8 lanes, two multiply-adds a cycle at 2 GHz; only the ratio to bandwidth matters."""
SHOWN = 5
"""Of the variants that are ranked worst."""


@dataclass(frozen=True)
class Family:
    operator: str
    kernel: str
    """Python with named places; a variant fills them."""
    places: dict[str, tuple[int, ...]]

    def variants(self) -> Iterator[tuple[str, str]]:
        """What is filled in, in words, and the source."""
        for values in itertools.product(*self.places.values()):
            source = self.kernel
            for name, value in zip(self.places, values, strict=True):
                source = source.replace(f"@{name}@", str(value))
            yield " ".join(f"{n}={v}" for n, v in zip(self.places, values, strict=True)), HEAD + source


class Seen(Frozen):
    """One variant: what was counted, compiled and measured of it."""

    variant: str
    counts: tuple[Counts, ...]
    builds: tuple[Build, ...]
    microseconds: float
    """Median."""
    relative: float
    """Time over that of eager, from pairs of calls in turn: what else the machine does is in both."""


class Kept(Frozen):
    """What is kept of a family."""

    target: Target
    """With its peaks as they were measured then."""
    seen: tuple[Seen, ...]


FAMILIES = {
    "row_sum": Family(
        OPERATOR_HEAD + 'N = Dim("N", 1, 8192)\n\n\n@operator(x=tensor(512, N), workloads=[workload(N=4096)])\n'
        "def op(x: torch.Tensor) -> torch.Tensor:\n    return x.sum(1)\n",
        """@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for again in range(0, @AGAIN@):
        for start in range(0, n, BLOCK):
            at = start + cols
            total += tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + row, tl.sum(total, 0) / @AGAIN@)


def op(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=@BLOCK@)
    return y
""",
        {"AGAIN": (1, 2, 4, 8, 16), "BLOCK": (32, 64, 128, 256, 512, 1024)},
    ),
    "special": Family(
        OPERATOR_HEAD + 'N = Dim("N", 1, 1 << 22)\n\n\n@operator(x=tensor(N), workloads=[workload(N=1_000_000)])\n'
        "def op(x: torch.Tensor) -> torch.Tensor:\n    return torch.exp(-x * x)\n",
        """@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    result = tl.exp(-value * value)
    for again in tl.static_range(0, @AGAIN@):
        result = tl.exp(-value * value + again * 0.0) + result * 0.0
    tl.store(y + at, result, mask=at < n)


def op(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), @BLOCK@),)](x, y, x.numel(), BLOCK=@BLOCK@)
    return y
""",
        {"AGAIN": (0, 1, 2, 4, 8, 16), "BLOCK": (128, 512, 1024, 4096, 8192)},
    ),
    "strided": Family(
        OPERATOR_HEAD + 'N = Dim("N", 1, 4096)\n\n\n@operator(x=tensor(N, 256), workloads=[workload(N=2048)])\n'
        "def op(x: torch.Tensor) -> torch.Tensor:\n    return x + 1.0\n",
        """@triton.jit
def kernel(x, y, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows = n // STEP
    at = (lane % rows) * STEP + lane // rows
    tl.store(y + at, tl.load(x + at, mask=lane < n, other=0.0) + 1.0, mask=lane < n)


def op(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), @BLOCK@),)](x, y, x.numel(), STEP=@STEP@, BLOCK=@BLOCK@)
    return y
""",
        {"STEP": (1, 2, 4, 8, 16, 32), "BLOCK": (64, 256, 512, 1024, 4096)},
    ),
    "matmul": Family(
        OPERATOR_HEAD + 'M = Dim("M", 1, 1024)\n\n\n'
        "@operator(a=tensor(M, 256), b=tensor(256, 256), workloads=[workload(M=512)])\n"
        "def op(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:\n    return a @ b\n",
        """@triton.jit
def kernel(a, b, c, m, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, 256, BK):
        rk = start + tl.arange(0, BK)
        left = tl.load(a + rm[:, None] * 256 + rk[None, :], mask=rm[:, None] < m, other=0.0)
        total = tl.dot(left, tl.load(b + rk[:, None] * 256 + rn[None, :]), total, input_precision="ieee")
    tl.store(c + rm[:, None] * 256 + rn[None, :], total, mask=rm[:, None] < m)


def op(a, b):
    c = torch.empty_like(a)
    grid = (triton.cdiv(a.shape[0], @BM@), 256 // @BN@)
    kernel[grid](a, b, c, a.shape[0], BM=@BM@, BN=@BN@, BK=@BK@)
    return c
""",
        {"BM": (16, 32, 64, 128), "BN": (16, 64, 128), "BK": (16, 64, 128)},
    ),
    "column_sum": Family(
        OPERATOR_HEAD + 'M = Dim("M", 1, 4096)\n\n\n@operator(x=tensor(M, 2048), workloads=[workload(M=1024)])\n'
        "def op(x: torch.Tensor) -> torch.Tensor:\n    return x.sum(0)\n",
        """@triton.jit
def kernel(x, y, m, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, m, ROWS):
        rows = start + tl.arange(0, ROWS)
        total += tl.load(x + rows[:, None] * 2048 + cols[None, :], mask=rows[:, None] < m, other=0.0)
    tl.store(y + cols, tl.sum(total, 0))


def op(x):
    y = torch.empty(2048, dtype=x.dtype, device=x.device)
    kernel[(2048 // @COLS@,)](x, y, x.shape[0], ROWS=@ROWS@, COLS=@COLS@)
    return y
""",
        {"ROWS": (1, 2, 4, 8, 16), "COLS": (1, 4, 8, 16, 64, 256)},
    ),
}


def with_peaks(target: Target, room: Room) -> Target:
    """The target with what is measured here where its file says so."""
    measured = {"memory_gb_per_s": room.bandwidth.memory / 1e9}
    if target.torch_device == "cpu":
        measured["float32_tflop_per_s"] = measured["bfloat16_tflop_per_s"] = room.threads * FLOPS_PER_CORE / 1e12
    unknown = {name: value for name, value in measured.items() if getattr(target.peaks, name) == "measure"}
    return target.model_copy(update={"peaks": target.peaks.model_copy(update=unknown)})


def watched(family: Family, room: Room, folder: Path, seconds: float) -> Iterator[Seen]:
    """Every variant that passed."""
    path = folder / "op.py"
    path.write_text(family.operator, encoding="utf-8")
    target = room.target
    chip = chip_of(target) if target.torch_device != "cpu" else None
    for variant, source in family.variants():
        job = Job(
            operator=OperatorRef(path=str(path)),
            target=target.name,
            source=source,
            seed=0,
            counted=cost.transaction_bytes(target),
            also=(chip,) if chip is not None else (),
            baselines=("eager",),
            bench_seconds=seconds,
            checked=False,
        )
        found = evaluate(job, room)
        if found.outcome is not Outcome.PASSED or not found.timings:
            why = found.message.splitlines()[0] if found.message else "not timed"
            print(f"  {variant} left out: {found.outcome}: {why}")
            continue
        (timing,) = found.timings
        yield Seen(
            variant=variant,
            counts=found.counts,
            builds=found.builds,
            microseconds=1e3 * timing.median_ms,
            relative=1 / timing.speedup["eager"],
        )


def lines(name: str, kept: Kept) -> Iterator[str]:
    """How well the family is ranked, and which variants are ranked worst."""
    measured = [one.relative for one in kept.seen]
    estimated = [cost.estimates(kept.target, one.counts, one.builds)[0].microseconds for one in kept.seen]
    by_clock, by_model = ranks(measured), ranks(estimated)
    rho = statistics.correlation(by_model, by_clock) if len(set(by_model)) > 1 else 0.0  # all alike: no order at all
    spread = max(measured) / min(measured)
    yield f"{name:12} {len(measured):3} kernels, slowest {spread:5.1f} x fastest: rho = {rho:.2f}"
    for i in sorted(range(len(measured)), key=lambda i: -abs(by_clock[i] - by_model[i]))[:SHOWN]:
        yield (
            f"  {kept.seen[i].variant:22} estimated {estimated[i]:9.1f} us, number {by_model[i] + 1:g}; "
            f"measured {kept.seen[i].microseconds:9.1f} us, {measured[i]:.2f} of eager's, number {by_clock[i] + 1:g}"
        )


def ranks(values: Sequence[float]) -> list[float]:
    """From 0; ties share their mean."""
    ordered = sorted(values)
    return [statistics.mean((ordered.index(v), len(ordered) - 1 - ordered[::-1].index(v))) for v in values]


def family(name: str, device: str, seconds: float, folder: Path | None) -> Kept:
    """From the folder, or watched now."""
    file = folder / f"{name}-{device}.json" if folder is not None else None
    if file is not None and file.exists():
        return Kept.model_validate_json(file.read_bytes())
    with closing(Room(device)) as room, tempfile.TemporaryDirectory() as scratch:
        seen = tuple(watched(FAMILIES[name], room, Path(scratch), seconds))
        kept = Kept(target=with_peaks(room.target, room), seen=seen)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(kept.model_dump_json(), encoding="utf-8")
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", choices=[[], *FAMILIES])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="of measurement for each kernel")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    for name in arguments.families or FAMILIES:
        kept = family(name, arguments.device, arguments.seconds, arguments.keep)
        print("\n".join(lines(name, kept)), flush=True)


if __name__ == "__main__":
    main()

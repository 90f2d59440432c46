"""From source text to verdict with everything real: sandbox, recorder, CPU backend, launcher, oracle.

Each kind of failure that a model produces gets the outcome it deserves, and the run goes on afterwards.
"""

from __future__ import annotations

import contextlib
import os
import signal
import textwrap
import threading
import time
from pathlib import Path

import pytest

from kernelsmith.compiled import Chip
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Evaluation, Job, OperatorRef, Verdict
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.sandbox import usage

OPERATOR = '''
"""Scaled sum of two vectors."""
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)

@operator(
    x=tensor(N, dtypes=("float32", "bfloat16")),
    y=tensor(N, dtypes="same as x"),
    workloads=[workload(N=100_000, x="float32")],
)
def blend(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.exp(x * 0.5) + y
'''

QUIET = {"bench": False, "located": False}
"""What most verdicts here are asked for: no timing, and no search of where they hold."""
HEAD = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(x + offsets, mask=mask).to(tl.float32)
    b = tl.load(y + offsets, mask=mask).to(tl.float32)
    tl.store(z + offsets, RESULT, mask=MASK)
"""
RIGHT = HEAD.replace("RESULT", "tl.exp(a * 0.5) + b").replace("MASK", "mask")
HOST = """
def blend(x, y):
    z = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
"""


def host(body: str) -> str:
    return f"\ndef blend(x, y):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


@pytest.fixture(scope="module")
def room():
    opened = Room("cpu")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def operator(tmp_path_factory) -> OperatorRef:
    path: Path = tmp_path_factory.mktemp("operator") / "blend.py"
    path.write_text(OPERATOR)
    return OperatorRef(path=str(path))


@pytest.fixture
def judge(room, operator):
    def judged(source: str, **options: object) -> Evaluation:
        screened = bool(options.pop("screened", True))
        job = Job(
            operator=operator, target="cpu", source=source, seed=7, **({"bench": False, "located": False} | options)
        )
        return evaluate(job, room, screened=screened)

    return judged


def test_right_kernel_passes(judge):
    verdict = judge(RIGHT + HOST)
    assert verdict.outcome is Outcome.PASSED, verdict.message
    assert verdict.cases == len(verdict.verified) >= 10
    assert {r.dtypes["x"] for r in verdict.verified} == {"float32", "bfloat16"}


def test_kernels_are_compiled_for_other_chips(judge):
    """By each chip's own front end, with the grid and the types of the tuned workload; a kernel that fails is not."""
    chips = (Chip(backend="cuda", arch=90, warp_size=32), Chip(backend="hip", arch="gfx942", warp_size=64))
    tuned = "@triton.autotune([triton.Config({}, num_warps=4)], key=[])\n@triton.jit"
    verdict = judge(RIGHT.replace("@triton.jit", tuned) + HOST, also=chips)
    assert verdict.outcome is Outcome.PASSED, verdict.message
    assert [build.chip for build in verdict.builds] == list(chips)
    for build in verdict.builds:
        assert build.outcome is Outcome.PASSED, build.message
        assert (build.kernel, build.grid, build.programs) == ("kernel", (98, 1, 1), 98)
        assert (build.workloads, build.dtypes) == (("N=100000 float32",), ("float32",))
        assert build.options == {"num_warps": 4}, "what a Config has by default, nobody named"
        assert build.resources is not None
        assert build.resources.threads == 4 * build.chip.warp_size
        assert max(build.resources.loads) == 16
    assert not judge(RIGHT.replace("0.5", "0.51") + HOST, also=chips).builds


TUNED = """
@triton.autotune([triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 64}, num_warps=1)], key=[])
@triton.jit"""
PICKED = """
def blend(x, y):
    z = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""


def test_each_workload_is_compiled_as_itself_with_every_configuration(room, tmp_path):
    """A candidate lowers what it recorded last, and one configuration of an autotuned kernel says nothing of others."""
    path = tmp_path / "blend.py"
    path.write_text(OPERATOR.replace('x="float32")]', 'x="float32"), workload(N=90_000, x="bfloat16")]'))
    source = RIGHT.replace("\n@triton.jit", TUNED) + PICKED
    chip = Chip(backend="cuda", arch=90, warp_size=32)
    job = Job(operator=OperatorRef(path=str(path)), target="cpu", source=source, seed=7, also=(chip,), **QUIET)
    found = evaluate(job.model_copy(update={"every_config": True}), room)
    assert found.outcome is Outcome.PASSED, found.message
    taken = [build for build in found.builds if build.taken]
    assert [(b.dtypes, b.grid[0], b.configs) for b in taken] == [
        (("float32",), 98, ("{'BLOCK': 1024}, num_warps=4, num_stages=3",)),
        (("bfloat16",), 88, ("{'BLOCK': 1024}, num_warps=4, num_stages=3",)),
    ]
    others = [build for build in found.builds if not build.taken]
    assert [(b.dtypes, b.configs) for b in others] == [
        ((name,), ("{'BLOCK': 64}, num_warps=1, num_stages=3",)) for name in ("float32", "bfloat16")
    ]
    assert [b.resources.threads for b in (*taken, *others) if b.resources] == [128, 128, 32, 32]


FAULTY = {
    "wrong everywhere": (RIGHT.replace("0.5", "0.51") + HOST, Outcome.WRONG_VALUES, "should be"),
    "one element too many": (
        HEAD.replace("RESULT", "tl.exp(a * 0.5) + b").replace("MASK", "offsets <= n") + HOST,
        Outcome.OUT_OF_BOUNDS,
        "beside",
    ),
    "torch does the work": (
        RIGHT + HOST.replace("return z", "return torch.exp(x * 0.5) + y"),
        Outcome.NOT_IN_PLAN,
        "aten.",
    ),
    "other dtype": (
        RIGHT + HOST.replace("empty_like(x)", "empty_like(x, dtype=torch.float64)"),
        Outcome.WRONG_DTYPE,
        "float64",
    ),
    "other shape": (RIGHT + HOST.replace("return z", "return z[:-1]"), Outcome.WRONG_SHAPE, "shape"),
    "other structure": (
        RIGHT + HOST.replace("return z", "return [z]"),
        Outcome.WRONG_SHAPE,
        "returned a list of 1 tensor, the reference returns a tensor",
    ),
    "returns nothing": (RIGHT + HOST.replace("return z", "return None"), Outcome.WRONG_SHAPE, "returned 0"),
    "writes its input": (
        RIGHT.replace("tl.store(z + offsets,", "tl.store(x + offsets, a * 2, mask=mask)\n    tl.store(z + offsets,")
        + HOST,
        Outcome.MUTATED_INPUT,
        "x was changed",
    ),
    "host raises": (RIGHT + host("raise ValueError('no such shape')"), Outcome.RUNTIME_ERROR, "no such shape"),
    "import raises": (RIGHT + HOST + "\n1 / 0\n", Outcome.RUNTIME_ERROR, "ZeroDivisionError"),
    "kernel does not compile": (RIGHT.replace("tl.exp(a", "tl.expp(a") + HOST, Outcome.COMPILE_ERROR, "expp"),
    "host exits": (RIGHT + host("raise SystemExit(0)"), Outcome.RUNTIME_ERROR, "SystemExit"),
    "host never ends": (RIGHT + host("while True: pass"), Outcome.TIMEOUT, "did not finish"),
    "host eats memory": (RIGHT + host("hoard = [bytearray(1 << 28) for _ in range(100)]"), Outcome.MEMORY, "memory"),
    "host floods its output": (
        RIGHT + host("while True: print('x' * 65536)"),
        Outcome.SANDBOX_VIOLATION,
        "printed more than",
    ),
    "plan by contents": (
        RIGHT + HOST.replace("    kernel[", "    if float(x.sum()) > 0:\n        z.zero_()\n    kernel["),
        Outcome.NOT_IN_PLAN,
        "aten.sum",
    ),
    "decoy launch": (
        RIGHT + host("z = torch.empty_like(x)\nkernel[(1,)](x, y, z, 0, BLOCK=1024)\nreturn z"),
        Outcome.WRONG_VALUES,
        "",
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_kernel_gets_its_outcome(judge, name):
    source, outcome, words = FAULTY[name]
    verdict = judge(source, seconds=4.0 if outcome is Outcome.TIMEOUT else 60.0)
    assert verdict.outcome is outcome, f"{verdict.outcome}: {verdict.message}"
    assert words in verdict.message


def test_segfault_is_a_crash(judge):
    wild = RIGHT.replace("b = tl.load(y + offsets, mask=mask)", "b = tl.load(y + offsets + (1 << 44), mask=mask)")
    verdict = judge(wild + HOST)
    assert verdict.outcome is Outcome.CRASHED
    assert "SIGSEGV" in verdict.message


def test_state_between_calls_is_found(judge):
    counting = RIGHT + textwrap.dedent("""
        _calls = []

        def blend(x, y):
            z = torch.empty_like(x)
            _calls.append(1)
            n = x.numel() if len(_calls) < 40 else x.numel() - 1
            kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, n, BLOCK=1024)
            return z
    """)
    verdict = judge(counting)
    assert verdict.outcome in {Outcome.WRONG_VALUES, Outcome.NOT_IN_PLAN}


def test_bench_times_the_replay_beside_the_baselines(judge):
    tuned = RIGHT.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({'BLOCK': 256}), triton.Config({'BLOCK': 4096})], key=['n'])\n@triton.jit",
    )
    call = HOST.replace("(triton.cdiv(x.numel(), 1024),)", "lambda m: (triton.cdiv(x.numel(), m['BLOCK']),)")
    verdict = judge(tuned + call.replace(", BLOCK=1024", ""), bench=True, bench_seconds=3.0, baselines=("eager",))
    assert verdict.outcome is Outcome.PASSED, verdict.message
    assert verdict.stage is Stage.BENCH
    (timing,) = verdict.timings
    assert set(timing.baselines) == set(timing.speedup) == {"eager"}
    assert timing.ci95_ms[0] <= timing.median_ms <= timing.ci95_ms[1]
    assert timing.verdict in set(Verdict)
    (choice,) = verdict.choices
    assert choice.configs[0].kernel == "kernel"
    assert "BLOCK" in choice.configs[0].text
    assert verdict.score == pytest.approx(timing.speedup["eager"])


def test_a_baseline_that_breaks_while_it_is_timed_is_left_out_and_told(room, tmp_path):
    baseline = """
calls = []

def today(x, y):
    calls.append(1)
    if len(calls) > 6:
        raise RuntimeError("today's kernel breaks later")
    return torch.exp(x * 0.5) + y

@operator(
    baseline=today,"""
    path: Path = tmp_path / "blend.py"
    path.write_text(OPERATOR.replace("\n@operator(", baseline))
    job = Job(operator=OperatorRef(path=str(path)), target="cpu", source=RIGHT + HOST, seed=7, bench_seconds=1.0)
    verdict = evaluate(job.model_copy(update={"baselines": ("eager",)}), room)
    assert verdict.outcome is Outcome.PASSED, verdict.message
    assert set(verdict.timings[0].baselines) == {"eager"}
    assert "no baseline baseline: baseline: RuntimeError: today's kernel breaks later" in verdict.notes


WORK = "    for _ in range(300 if x.numel() == 100_000 else 0):\n        z.numpy().sort()\n    kernel["
"""NumPy on the tensors' memory makes no aten call; it only takes time, several times what a busy machine is allowed."""
ONLY_TIMED = "    import sys\n    if sys._getframe(1).f_code.co_name == '_repeat':\n        return x\n"
"""Spares itself everything where it can see that nobody looks at its answer."""


def test_work_that_no_plan_shows_counts_where_it_is_done(judge):
    source, options = RIGHT + HOST.replace("    kernel[", WORK), {"bench_seconds": 1.0, "baselines": ("eager",)}
    verdict = judge(source, bench=True, screened=False, **options)
    assert verdict.outcome is Outcome.PASSED, f"{verdict.outcome}: {verdict.message}"
    assert [timing.host_us > 1_000 for timing in verdict.timings] == [True, *[False] * (len(verdict.timings) - 1)]


def test_work_that_is_done_where_nobody_times_it_is_refused(judge):
    host = HOST.replace("    kernel[", WORK).replace("    z = ", ONLY_TIMED + "    z = ", 1)
    verdict = judge(RIGHT + host, bench=True, screened=False, bench_seconds=1.0, baselines=("eager",))
    assert verdict.outcome is Outcome.NOT_IN_PLAN, f"{verdict.outcome}: {verdict.message}"
    assert "a real call takes" in verdict.message


SEGMENTS = '''
"""Sums of segments of a vector."""
import torch
from kernelsmith import Dim, operator, tensor, workload

N, S = Dim("N", 1, 512), Dim("S", 2, 9)

@operator(x=tensor(N), ends=tensor(S, dtypes="int32", values="offsets", low=0, high=N), {declared}
          workloads=[workload(N=500, S=5)])
def segment_sums(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[a:b].sum() for a, b in zip(ends[:-1].tolist(), ends[1:].tolist())])
'''
SEGMENTED = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, ends, y, ROUNDS, BLOCK: tl.constexpr):
    segment = tl.program_id(0)
    begin, end = tl.load(ends + segment), tl.load(ends + segment + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for round in range(ROUNDS):
        at = begin + round * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < end, other=0.0)
    tl.store(y + segment, tl.sum(total))

def segment_sums(x, ends):
    given = ends.tolist()
    longest = max(b - a for a, b in zip(given, given[1:]))
    y = torch.empty(len(given) - 1)
    kernel[(len(given) - 1,)](x, ends, y, triton.cdiv(longest, 4), BLOCK=4)
    return y
"""


def test_a_plan_follows_the_contents_of_declared_arguments_only(room, tmp_path):
    """Of segments, the host function reads how long the longest is; that is declared for the operator, or not."""
    verdicts = []
    for name, declared in (("declared", "plan_relevant='ends',"), ("silent", "")):
        path: Path = tmp_path / f"{name}.py"
        path.write_text(SEGMENTS.format(declared=declared))
        job = Job(operator=OperatorRef(path=str(path)), target="cpu", source=SEGMENTED, seed=7, bench=False)
        verdicts.append(evaluate(job, room))
    assert verdicts[0].outcome is Outcome.PASSED, verdicts[0].message
    assert verdicts[1].outcome is Outcome.NOT_IN_PLAN, verdicts[1].message
    assert "depends on the contents of its inputs" in verdicts[1].message


def killing(room: Room, ended: threading.Event, times: int, killed: list[int]) -> None:
    """SIGKILL for that many of the zygote's forks, each as soon as there is one."""
    keeper = room.zygote.pid
    standing = set(usage.descendants(keeper))
    while len(killed) < times and not ended.wait(0.002):
        for pid in set(usage.descendants(keeper)) - standing:
            standing.add(pid)
            time.sleep(0.05)  # it is at work by then
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                break


@pytest.mark.parametrize(("times", "outcome"), [(1, Outcome.PASSED), (1000, Outcome.CRASHED)])
def test_a_process_killed_from_outside_is_blamed_on_nobody_the_first_time(judge, room, times, outcome):
    judge(RIGHT + HOST)  # what is built once is built
    ended, killed = threading.Event(), list[int]()
    killer = threading.Thread(target=killing, args=(room, ended, times, killed))
    killer.start()
    try:
        assert judge(RIGHT + HOST).outcome is outcome
    finally:
        ended.set()
        killer.join()
    assert killed


def test_a_candidate_that_has_itself_killed_is_blamed_after_one_repeat(judge, room, monkeypatch):
    """Its limit of processor time, which every process may lower, ends it by the kernel's SIGKILL as others would."""
    spawned = []

    def spawn(role, **options):
        spawned.append(options["label"])
        return original(role, **options)

    original = room.zygote.spawn
    monkeypatch.setattr(room.zygote, "spawn", spawn)
    suicide = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 0))\nwhile True: pass\n"
    verdict = judge(suicide + RIGHT + HOST, screened=False)
    assert verdict.outcome is Outcome.CRASHED, f"{verdict.outcome}: {verdict.message}"
    assert "SIGKILL" in verdict.message
    assert spawned.count("candidate") == 2

"""Where real candidates fail, found by real runs: sentences, regions, sweeps, and verdicts that stand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kernelsmith.errors import UsageError
from kernelsmith.evaluate import extent
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Level, Outcome
from kernelsmith.space import RegionStatus, Sweep

OPERATOR = '''
"""Each row scaled by its number of columns, and once more."""
import torch
from kernelsmith import Dim, operator, tensor, workload

B, N = Dim("B", 1, 4096), Dim("N", 1, 2048)

@operator(
    x=tensor(B, N, dtypes=("float32", "float16")),
    workloads=[workload(B=16, N=768, x="float16"), workload(B=2, N=1536, x="float16")],
)
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * (x.shape[1] + 1)
'''
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, numel, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < numel
    tl.store(y + offsets + FAR, tl.load(x + offsets, mask=mask) * factor, mask=mask)


def scaled(x):
    b, n = x.shape
    y = torch.empty_like(x)
    kernel[(triton.cdiv(b * n, 1024),)](x, y, b * n, (n + 1) * (2 if WRONG else 1), BLOCK=1024)
    return y
"""


def kernel(wrong: str = "False", *, far: str = "") -> str:
    """The kernel that is wrong under a condition, and crashes under another one."""
    return KERNEL.replace("WRONG", wrong).replace("FAR", f"({far}).to(tl.int64) * (1 << 44)" if far else "0")


@pytest.fixture(scope="module")
def room():
    opened = Room("cpu")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def operator(tmp_path_factory) -> OperatorRef:
    path: Path = tmp_path_factory.mktemp("operator") / "scaled.py"
    path.write_text(OPERATOR)
    return OperatorRef(path=str(path))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines that run tests are busy."""
    monkeypatch.setattr(extent, "SEARCH_SECONDS", dict.fromkeys(Level, 60.0))


def judged(room: Room, operator: OperatorRef, source: str, *sweeps: Sweep) -> Evaluation:
    job = Job(operator=operator, target="cpu", source=source, seed=3, bench=False, checked=False, sweeps=sweeps)
    return evaluate(job, room)


@pytest.mark.parametrize(
    ("wrong", "words", "dims", "dtypes"),
    [
        ("n == 768", "Wrong at N=768 only", {"N": (768, 768)}, {}),
        ("1025 <= b <= 1536", "Wrong for B in 1025..1536", {"B": (1025, 1536)}, {}),
        (
            "n > 1000 and x.dtype == torch.float16",
            "Wrong for N >= 1001 when dtype is float16",
            {"N": (1001, 2048)},
            {"x": "float16"},
        ),
        ("n % 64 != 0", "Wrong for N not a multiple of 64", {"N": (1, 2048)}, {}),
    ],
)
def test_a_wrong_answer_is_followed_to_where_it_ends(room, operator, wrong, words, dims, dtypes) -> None:
    verdict = judged(room, operator, kernel(wrong))
    assert verdict.outcome is Outcome.WRONG_VALUES
    assert words in verdict.message and "Smallest failing input found: " in verdict.message
    assert verdict.evidence is not None and verdict.evidence.refuted is not None
    refuted = verdict.evidence.refuted
    assert refuted.regions == verdict.verified[-1:]
    assert (refuted.regions[0].dims, refuted.regions[0].dtypes) == (dims, dtypes)


def test_a_crash_is_followed_too_with_fresh_processes(room, operator) -> None:
    verdict = judged(room, operator, kernel(far="factor > 701"))
    assert verdict.outcome is Outcome.CRASHED
    assert "Crashes for N >= 701" in verdict.message


def test_a_failure_at_no_input_in_particular_has_no_region(room, operator) -> None:
    verdict = judged(room, operator, "def scaled(x):\n    return undefined\n")
    assert verdict.evidence is None or verdict.evidence.refuted is None or "every size" in verdict.message


def test_one_hidden_size_is_found_by_a_sweep_alone(room, operator) -> None:
    hidden = random.Random().choice([n for n in range(131, 250) if n % 16])
    source = kernel(f"3 * n == {3 * hidden}")  # numbers that the text names are tried as sizes
    assert judged(room, operator, source).outcome is Outcome.PASSED
    verdict = judged(room, operator, source, Sweep(name="N", low=130, high=250))
    assert verdict.outcome is Outcome.WRONG_VALUES
    assert f"Wrong at N={hidden} only" in verdict.message
    assert "all 121 sizes" not in verdict.message, "N may have more"
    assert verdict.evidence is not None
    assert [(one.tried, one.wrong) for one in verdict.evidence.swept] == [(121, ((hidden, hidden),))]
    boxes = {region.dims["N"] for region in verdict.verified if region.status is RegionStatus.SWEPT}
    assert boxes == {(130, hidden - 1), (hidden + 1, 250)}


def test_a_sweep_of_a_right_kernel_proves_boxes(room, operator) -> None:
    verdict = judged(room, operator, kernel(), Sweep(name="B", low=1, high=40))
    assert verdict.outcome is Outcome.PASSED
    swept = [region for region in verdict.verified if region.status is RegionStatus.SWEPT]
    assert [(box.dims, box.dtypes) for box in swept] == [
        ({"B": (1, 40), "N": (3, 3)}, {"x": "float32"}),
        ({"B": (1, 40), "N": (3, 3)}, {"x": "float16"}),
    ]


def test_a_sweep_of_what_is_no_dim_is_refused_before_anything_runs(room, operator) -> None:
    with pytest.raises(UsageError, match="has no dim K"):
        judged(room, operator, kernel(), Sweep(name="K", low=1, high=5))

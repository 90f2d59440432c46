from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.estimate import Counts, Unit, Work
from kernelsmith.model import Evaluation
from kernelsmith.outcome import Level
from kernelsmith.proposal import Bottleneck
from kernelsmith.search.bottleneck import findings, worst
from tests.fakes import evaluation_of, timing, unmeasured

MB = 1 << 20
FOLDER = Path(__file__).parents[2] / "prompts" / "bottlenecks"


def judged(*, ms: float = 1.0, host_us: float = 5.0, roofline: float | None = 0.4, **work: object) -> Evaluation:
    one = timing(1.5).model_copy(update={"median_ms": ms, "host_us": host_us, "roofline": roofline})
    counted = {"kernel": "k", "programs": 64, "read_bytes": MB, "written_bytes": MB, "asked_bytes": 2 * MB, **work}
    counts = Counts(workload=one.workload.label, needed_bytes=2 * MB, kernels=(Work.model_validate(counted),))
    return evaluation_of("# faster 1.5", Level.QUICK).model_copy(update={"timings": (one,), "counts": (counts,)})


@pytest.mark.parametrize(
    ("facts", "expected", "said"),
    [
        ({"host_us": 900.0}, Bottleneck.HOST, "900 us of Python per call are 47%"),
        ({"roofline": 0.9}, Bottleneck.MEMORY, "90%"),
        ({"ms": 0.02, "launches": 3}, Bottleneck.LAUNCHES, "3 launches in 20 us"),
        ({"asked_bytes": MB // 2}, Bottleneck.SCATTERED, "only 524 kB were asked for"),
        ({"programs": 1}, Bottleneck.PARALLELISM, "1 programs for 2 units"),
        ({"read_bytes": 4 * MB, "asked_bytes": 5 * MB}, Bottleneck.TRAFFIC, "2.5 times the 2.1 MB"),
        ({"operations": {Unit.MATRIX_16: 99 * MB}}, Bottleneck.ARITHMETIC, "50 operations per byte"),
        ({}, Bottleneck.LATENCY, "only 40% of the memory's bandwidth"),
    ],
)
def test_one_name_and_the_numbers_that_say_so(facts: dict[str, object], expected: Bottleneck, said: str) -> None:
    (found,) = findings(judged(**facts), units=2)  # type: ignore[arg-type]
    assert found.bottleneck is expected and said in found.evidence


def test_without_counts_the_times_alone_are_told() -> None:
    bare = judged(roofline=None).model_copy(update={"counts": ()})
    (found,) = findings(bare)
    assert found.bottleneck is Bottleneck.LATENCY and "no roofline is known" in found.evidence


def test_the_workload_with_most_to_gain_is_the_one_to_work_on() -> None:
    near, far = judged(roofline=0.7), judged(roofline=0.1)
    other = far.timings[0].model_copy(
        update={"workload": far.timings[0].workload.model_copy(update={"dims": {"N": 7}})}
    )
    both = near.model_copy(update={"timings": (*near.timings, other)})
    aim = worst(both)
    assert aim is not None and aim.workload == "N=7"
    light = other.model_copy(update={"workload": other.workload.model_copy(update={"weight": 0.01})})
    aim = worst(near.model_copy(update={"timings": (*near.timings, light)}))
    assert aim is not None and aim.workload == "N=1024", "weights count"


def test_estimates_have_limits_of_their_own() -> None:
    evaluation = unmeasured(evaluation_of("# faster 2.0", Level.QUICK), "somewhere")
    aim = worst(evaluation)
    assert (
        aim is not None and aim.bottleneck is Bottleneck.TRAFFIC and aim.evidence.startswith("estimated: memory 4 us")
    )


@pytest.mark.parametrize("bottleneck", Bottleneck)
def test_every_bottleneck_has_its_advice(bottleneck: Bottleneck) -> None:
    assert (FOLDER / f"{bottleneck}.md").read_text().strip()

"""What does not fit, in words that a model can act on."""

from __future__ import annotations

from typing import Any

import pytest

from kernelsmith.compiled import Build, Chip, Fit, Resources, unusable
from kernelsmith.offline.fit import chip_of, fit, rows, unavailable
from kernelsmith.outcome import Outcome
from kernelsmith.render import fit_lines
from kernelsmith.targets import Target, load

H100 = load("nvidia-h100")


def build(target: Target = H100, **more: Any) -> Build:
    chip = chip_of(target)
    assert chip is not None
    taken = {"warps": 4, "threads": 4 * chip.warp_size, "registers": 64, "spill_bytes": 0, "loads": {16: 4}}
    resources = Resources.model_validate(taken | more.pop("resources", {}))
    return Build(kernel="k", chip=chip, resources=resources, **more)


def test_too_much_shared_memory() -> None:
    row = fit(build(resources={"shared_bytes": 393_216}), H100)
    assert row.wrong
    assert row.outcome is Outcome.RESOURCE_LIMIT
    assert row.message == (
        "needs 393,216 bytes of shared memory in a program, an nvidia-h100 has 232,448: smaller tiles or fewer "
        "num_stages"
    )
    assert not fit(build(resources={"shared_bytes": 232_448}), H100).wrong


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"resources": {"warps": 64, "threads": 2048}}, "2,048 threads in a program, an nvidia-h100 allows 1,024"),
        ({"resources": {"tensor_memory_columns": 1024}}, "1024 columns of tensor memory, there are 512"),
        ({"grid": (1, 70_000, 1)}, "70,000 programs along axis 1, an nvidia-h100 allows 65,535: put the long axis"),
        ({"grid": (2**31, 1, 1)}, "2,147,483,648 programs along axis 0"),
    ],
)
def test_other_limits(more: dict[str, Any], words: str) -> None:
    row = fit(build(**more), H100)
    assert row.outcome is Outcome.RESOURCE_LIMIT
    assert words in row.message


def test_missing_dtypes() -> None:
    without = H100.model_copy(update={"limits": H100.limits.model_copy(update={"missing_dtypes": ("float64",)})})
    row = fit(build(dtypes=("float64", "int32")), without)
    assert row.wrong
    assert "is given float64, which an nvidia-h100 does not have" in row.message


def test_not_one_program_fits() -> None:
    """255 x 32 registers, rounded to 8,192 a warp, are 2 warps in a partition and 8 in all."""
    row = fit(build(resources={"warps": 16, "threads": 512, "registers": 255}), H100)
    assert row.outcome is Outcome.RESOURCE_LIMIT
    assert "not one program fits on a multiprocessor of an nvidia-h100: its registers are too few" in row.message


def test_warnings() -> None:
    taken = {"registers": 255, "spill_bytes": 48, "loads": {2: 3, 4: 1}}
    row = fit(build(resources=taken), H100)
    assert row.outcome is Outcome.PASSED
    spills, few = row.warnings
    assert "spills 48 bytes per thread" in spills
    assert few == "only 8 warps are resident on a multiprocessor (registers limit them)"
    assert not fit(build(), H100).warnings


def test_a_failure_keeps_its_words() -> None:
    chip = chip_of(H100)
    assert chip is not None
    failed = Build(kernel="k", chip=chip, outcome=Outcome.TIMEOUT, message="did not finish", line=3)
    row = fit(failed, H100)
    assert (row.outcome, row.message, row.line, row.resources) == (Outcome.TIMEOUT, "did not finish", 3, None)


def test_a_row_for_every_target() -> None:
    ours, other, cambricon = build(), load("nvidia-h200"), load("cambricon")
    found = rows([H100, other, cambricon], [ours], passed=True)
    assert [(row.target, row.outcome) for row in found] == [
        ("nvidia-h100", Outcome.PASSED),
        ("nvidia-h200", Outcome.PASSED),  # the same chip: compiled once
        ("cambricon", None),
    ]
    assert "description only" in found[2].message
    assert not found[2].wrong
    (none,) = rows([H100], [], passed=True)
    assert not none.wrong
    assert none.message == "it launches no kernel"
    (failed,) = rows([H100], [], passed=False)
    assert failed.outcome is None
    assert "did not pass" in failed.message


def test_chips() -> None:
    assert chip_of(load("amd-mi300x")) == Chip(backend="hip", arch="gfx942", warp_size=64)
    assert chip_of(load("cpu")) is None
    assert "--device cpu" in unavailable(load("cpu")).message


def test_a_configuration_that_does_not_fit_is_passed_over_where_another_does() -> None:
    small, large = (Fit(target="t", kernel="k", workloads=("w",), configs=(text,), outcome=end) for text, end in ENDS)
    assert unusable((small, large)) == ()
    assert unusable((large,)) == (large,)
    elsewhere = large.model_copy(update={"workloads": ("w", "other")})
    assert unusable((small, elsewhere)) == (elsewhere,), "nothing fits on the other workload"
    plain = large.model_copy(update={"configs": ()})
    assert unusable((small, plain)) == (plain,), "a launch that nobody tunes"
    assert unusable((small.model_copy(update={"target": "u"}), large)) == (large,)


ENDS = (("BLOCK=64", Outcome.PASSED), ("BLOCK=4096", Outcome.RESOURCE_LIMIT))


def test_configurations_have_a_column_where_there_are_some() -> None:
    plain, tuned = fit(build(), H100), fit(build(configs=("{'BLOCK': 64}", "{'BLOCK': 32}")), H100)
    assert "configuration" not in "\n".join(fit_lines((plain,)))
    assert fit_lines((plain, tuned))[3].endswith("{'BLOCK': 64} or {'BLOCK': 32}")

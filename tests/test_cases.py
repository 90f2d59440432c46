"""Real faults and honest oddities: each kernel of `cases` gets the verdict it deserves, without being told the input
that exposes it.

Every rule that tells right from wrong is the product's own. The suite judges all kernels that are alone with their
operator and a sample of the others, at the quick level if that has to see what is wrong. `python -m benchmarks.oracle`
judges all of them at both levels.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Job, OperatorRef
from kernelsmith.outcome import Level
from tests.cases.table import CASES, FOLDER

SAMPLE = (
    "attention/wrong_causal_from_start",
    "clip/right_compared",
    "copy_sign/wrong_compared",
    "histogram/right_kept_counts",
    "histogram/wrong_empty",
    "layer_norm/wrong_eps_outside",
    "layer_norm/wrong_one_pass",
    "logsumexp/right_online",
    "logsumexp/wrong_masked_row",
    "matmul_bias/right_split_k",
    "matmul_bias/wrong_bias_by_row",
    "matmul_bias/wrong_half_precision",
    "matmul_bias/wrong_last_group",
    "middle_mean/wrong_every_second",
    "n_long_sum/wrong_last_element",
    "n_matmul/wrong_tf32",
    "n_rms_norm/right_cast_before",
    "order_of/wrong_ties_reversed",
    "rope/wrong_start_forgotten",
    "row_softmax/wrong_band",
    "running_sum/wrong_carry_replaced",
    "scale_heads/wrong_map_of_square",
    "scale_heads/wrong_scale_dense",
    "scale_shift/right_empty_grid",
    "scale_shift/wrong_number_folded",
    "segment_mean/right_loop",
    "segment_mean/wrong_empty",
    "segment_mean/wrong_last_to_the_end",
    "swiglu/wrong_halves_swapped",
    "take_rows/wrong_negative",
    "take_rows/wrong_storage",
    "tiny_norm/wrong_through_half",
    "to_int8/wrong_half_up",
    "to_int8/wrong_wraps",
    "unpack_int4/wrong_unsigned",
    "window_sum/wrong_by_one",
)
"""Of operators with several kernels: a faulty one of each kind that no other case shows, and honest ones."""
JUDGED = [case for case in CASES if case.name.endswith("/kernel") or case.name in SAMPLE]


@pytest.fixture(scope="module")
def room():
    with pytest.MonkeyPatch.context() as patch, closing(Room("cpu")) as opened:
        patch.setattr("kernelsmith.evaluate.check.check.ORDERED_SECONDS", 2.0)  # one of them spins until it is ended
        yield opened


def test_every_case_is_in_the_table():
    kernels = {path for folder in FOLDER.iterdir() if (folder / "op.py").exists() for path in folder.glob("*.py")}
    names = [f"{path.parent.name}/{path.stem}" for path in kernels if path.name != "op.py"]
    assert sorted(names) == sorted(case.name for case in CASES)


@pytest.mark.parametrize("case", JUDGED, ids=lambda case: case.name)
def test_verdict(room, case):
    verdict = evaluate(
        Job(
            operator=OperatorRef(path=str(case.operator)),
            target="cpu",
            source=case.source,
            level=Level.FULL if case.hidden else Level.QUICK,
            seed=11,
            bench=False,
            repeats=case.repeats,
            located=False,
        ),
        room,
    )
    assert verdict.outcome in case.outcomes, f"{verdict.outcome}: {verdict.message} {verdict.where}"
    assert case.words in verdict.message

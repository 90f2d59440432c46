"""Real faults and honest oddities: each folder of `cases` gets the verdict it deserves, without being told the input
that exposes it.

The operator files say what a user would say: dims, dtypes, layouts, values, mutated arguments, checks. Every rule that
tells right from wrong is the product's own, and the quick level is enough for all but one of them: row offsets that
wrap in int32 need rows 2**30 elements apart, which the full level tries.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Job, OperatorRef
from kernelsmith.outcome import Level, Outcome
from kernelsmith.triton_cpu.run.cores import usable_cores

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Expected:
    """The outcomes that a case may have."""

    outcomes: frozenset[Outcome]
    words: str = ""
    """Somewhere in the message."""
    repeats: int | None = None
    """As many as it takes; None: the handful of the level."""
    level: Level = Level.QUICK


def rejected(*outcomes: Outcome, words: str = "", repeats: int | None = None, level: Level = Level.QUICK) -> Expected:
    return Expected(frozenset(outcomes), words, repeats, level)


RIGHT = Expected(frozenset({Outcome.PASSED}))
RIGHT_EVERY_TIME = Expected(frozenset({Outcome.PASSED}), repeats=600)
EXPECTED = {
    "a01_sum_order": RIGHT,
    "a03_negative_zero": RIGHT,
    "a04_nan_positions_equal": RIGHT,
    "a05_topk_tie_indices": RIGHT,
    "a06_atomic_sum": RIGHT,
    "a07_seeded_dropout": RIGHT,
    "a08_fp16_overflow_to_inf": RIGHT,
    "a10_better_than_reference": RIGHT,
    "a11_quantise_off_by_one": RIGHT,
    "a12_last_arriver": RIGHT,
    "a14_kept_workspace": RIGHT,
    "a50_counters_in_turn": RIGHT_EVERY_TIME,
    "a51_atomic_maximum": RIGHT,
    "a52_workspace_per_call": RIGHT_EVERY_TIME,
    "a53_barrier_of_two": RIGHT if usable_cores() > 1 else Expected(frozenset({Outcome.TIMEOUT})),
    "r01_tail_store_neighbour": rejected(Outcome.OUT_OF_BOUNDS, words="past its end"),
    "r02_max_pad_zero": rejected(Outcome.WRONG_VALUES),
    "r04_int32_offset": rejected(Outcome.WRONG_VALUES, words="compute them in 64 bits", level=Level.FULL),
    "r05_row_stride_assumed": rejected(Outcome.WRONG_VALUES),
    "r06_flat_index_noncontig": rejected(Outcome.WRONG_VALUES, Outcome.WRONG_SHAPE, Outcome.OUT_OF_BOUNDS),
    "r08_persistent_trip_count": rejected(Outcome.WRONG_VALUES),
    "r09_fp16_accumulator": rejected(Outcome.WRONG_VALUES),
    "r10_softmax_no_max": rejected(Outcome.WRONG_VALUES),
    "r11_nan_dropped": rejected(Outcome.WRONG_VALUES),
    "r12_argmax_merge": rejected(Outcome.WRONG_VALUES),
    "r13_uninit_upper_triangle": rejected(Outcome.WRONG_VALUES, words="returned without ever having been written"),
    "r14_dtype_promotion": rejected(Outcome.WRONG_DTYPE),
    "r15_scatter_duplicates": rejected(Outcome.WRONG_VALUES, words="conflicting lanes"),
    "r16_mirror_in_place": rejected(Outcome.WRONG_VALUES, Outcome.RACE),
    "r17_lost_updates": rejected(Outcome.WRONG_VALUES, Outcome.RACE, words="in program"),
    "r18_init_vs_atomic": rejected(Outcome.RACE, words="order in which programs run"),
    "r19_chained_spin_hang": rejected(Outcome.TIMEOUT, words="order in which programs run"),
    "r20_tuning_on_live_buffers": rejected(Outcome.WRONG_VALUES),
    "r21_cache_by_pointer": rejected(Outcome.WRONG_VALUES, words="nearly the same contents"),
    "r23_lazy_subclass": rejected(Outcome.NOT_IN_PLAN, Outcome.WRONG_VALUES, Outcome.WRONG_DTYPE),
    "r24_torch_fallback": rejected(Outcome.NOT_IN_PLAN),
    "r25_input_mutation": rejected(Outcome.MUTATED_INPUT, Outcome.WRONG_VALUES),
    "r26_patch_compare": rejected(Outcome.WRONG_VALUES, Outcome.SANDBOX_VIOLATION, Outcome.REJECTED),
    "r28_stale_workspace": rejected(Outcome.WRONG_VALUES, Outcome.NOT_IN_PLAN),
    "r29_cache_by_identity": rejected(Outcome.WRONG_VALUES),
    "r30_masked_lanes_summed": rejected(Outcome.UNINITIALIZED_READ, words="value = tl.load(x + row * n + columns"),
    "r31_neighbour_past_the_end": rejected(Outcome.OUT_OF_BOUNDS, words="past the last element"),
    "r50_one_counter_in_300": rejected(Outcome.NONDETERMINISTIC, words="wrong in 2 of 600 calls", repeats=600),
    "r51_lost_maximum": rejected(Outcome.RACE, words="between two atomic operations of one"),
    "r52_fifteen_workspaces": rejected(Outcome.RACE, words="only when 16 or more calls run at once", repeats=32),
}


@pytest.fixture(scope="module")
def room():
    with pytest.MonkeyPatch.context() as patch, closing(Room("cpu")) as opened:
        patch.setattr("kernelsmith.evaluate.check.check.ORDERED_SECONDS", 2.0)  # one of them spins until it is ended
        yield opened


def test_every_case_is_judged():
    assert {folder.name for folder in CASES.iterdir() if (folder / "op.py").exists()} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict(room, name):
    expected = EXPECTED[name]
    verdict = evaluate(
        Job(
            operator=OperatorRef(path=str(CASES / name / "op.py")),
            target="cpu",
            source=(CASES / name / "kernel.py").read_text(),
            level=expected.level,
            seed=11,
            bench=False,
            repeats=expected.repeats,
            located=False,
        ),
        room,
    )
    assert verdict.outcome in expected.outcomes, f"{verdict.outcome}: {verdict.message} {verdict.where}"
    assert expected.words in verdict.message

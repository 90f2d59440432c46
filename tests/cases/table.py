"""Every kernel whose verdict is known: the kind of fault it has, or looks as if it had, and the outcomes it may get.

A case is `FOLDER/KERNEL`: the kernel `KERNEL.py` for the operator `op.py` of that folder. The operator files say what a
user would say: dims, dtypes, layouts, values, mutated arguments, checks; the input that exposes a fault is for the
oracle to find. A faulty kernel has to be refused at the full level, and at the quick one too unless it is `hidden`; one
that is right has to pass both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kernelsmith.outcome import Outcome
from kernelsmith.triton_cpu.run.cores import usable_cores

FOLDER = Path(__file__).parent


class Kind(StrEnum):
    """What a kernel gets wrong, or may seem to."""

    PADDING = "padding in a reduction"
    OVERFLOW = "overflow of sums or exponentials"
    CANCELLING = "cancelling moments"
    MERGING = "merging of partial results"
    FORMULA = "formula"
    SIZES = "a size or a band of sizes"
    MASKED = "rows masked by -inf"
    TAILS = "tails of blocks and tiles"
    SPLIT = "splitting of one sum"
    INDEX_MAP = "which program does what"
    SQUARE = "right for equal sizes only"
    ONE = "sizes of one or none"
    BROADCAST = "broadcasting"
    STRIDES = "strides"
    EXPANDED = "operands of stride 0"
    OFFSET = "views that begin inside memory"
    NARROW = "accumulators that are too narrow"
    PRECISION = "multiplying with too few bits"
    SAMPLING = "looking at a part of the input"
    ATTENTION = "which keys a query sees"
    WINDOW = "edges of windows"
    SEGMENTS = "segments of unequal length"
    SLACK = "rows that belong to nobody"
    UNWRITTEN = "outputs left unwritten"
    DUPLICATES = "indices that occur again"
    INDICES = "special indices"
    SCAN = "scans across blocks"
    STATE = "what is kept between calls"
    INTEGERS = "integers that wrap"
    ROUNDING = "rounding"
    SATURATION = "saturation"
    PACKED = "packed numbers"
    HALVES = "order of halves and pairs"
    IN_PLACE = "working in place"
    NAN = "NaN dropped"
    ZEROS = "signed zeros"
    TINY = "tiny values"
    TIES = "ties"
    RACE = "order of programs"
    CONFIGS = "one of many configurations"
    GRID = "limits of grids and loops"
    HOST = "what the host function does instead"
    FOLDED = "tuned values held fast"
    RANDOM = "random numbers"
    PROMOTION = "dtype of the answer"
    EDGES = "edges of convolution, pooling and resizing"
    PAGES = "pages of a cache"
    NOW_AND_THEN = "wrong now and then"
    AT_ONCE = "calls at once"


WRONG = frozenset({Outcome.WRONG_VALUES})
STRAY = frozenset({Outcome.WRONG_VALUES, Outcome.OUT_OF_BOUNDS, Outcome.UNINITIALIZED_READ, Outcome.CRASHED})
"""Of a load or store that leaves its row: what it finds or hits decides how it shows."""
UNSET = frozenset({Outcome.WRONG_VALUES, Outcome.NONDETERMINISTIC, Outcome.UNINITIALIZED_READ})
"""Of memory that nobody wrote, which may hold anything, the right answer too."""
RACED = frozenset({Outcome.WRONG_VALUES, Outcome.RACE})
KEPT = frozenset({Outcome.WRONG_VALUES, Outcome.NOT_IN_PLAN})
SHAPED = frozenset({Outcome.WRONG_SHAPE})
OUTSIDE = frozenset({Outcome.NOT_IN_PLAN})


@dataclass(frozen=True)
class Known:
    """A kernel and the outcomes that it may get."""

    name: str
    kind: Kind
    outcomes: frozenset[Outcome] = frozenset({Outcome.PASSED})
    words: str = ""
    """Somewhere in the message."""
    hidden: bool = False
    """So rare that the quick level need not see it."""
    repeats: int | None = None
    """As many calls as it takes; None: the handful of the level."""
    at_once: int = 32
    """Most calls that it has to bear at once."""

    @property
    def right(self) -> bool:
        return Outcome.PASSED in self.outcomes

    @property
    def operator(self) -> Path:
        return FOLDER / self.name.partition("/")[0] / "op.py"

    @property
    def source(self) -> str:
        return (FOLDER / f"{self.name}.py").read_text(encoding="utf-8")


def right(name: str, kind: Kind, *, repeats: int | None = None, at_once: int = 32) -> Known:
    """`at_once=1`: of a kernel that keeps a workspace, which is right as long as no two calls overlap."""
    return Known(name, kind, repeats=repeats, at_once=at_once)


def wrong(
    name: str,
    kind: Kind,
    outcomes: frozenset[Outcome] = WRONG,
    words: str = "",
    *,
    hidden: bool = False,
    repeats: int | None = None,
) -> Known:
    return Known(name, kind, outcomes, words, hidden, repeats)


CASES = (
    right("a01_sum_order/kernel", Kind.SPLIT),
    right("a03_negative_zero/kernel", Kind.ZEROS),
    right("a04_nan_positions_equal/kernel", Kind.NAN),
    right("a05_topk_tie_indices/kernel", Kind.TIES),
    right("a06_atomic_sum/kernel", Kind.SPLIT),
    right("a07_seeded_dropout/kernel", Kind.RANDOM),
    right("a08_fp16_overflow_to_inf/kernel", Kind.OVERFLOW),
    right("a10_better_than_reference/kernel", Kind.CANCELLING),
    right("a11_quantise_off_by_one/kernel", Kind.ROUNDING),
    right("a12_last_arriver/kernel", Kind.RACE),
    right("a14_kept_workspace/kernel", Kind.STATE, at_once=1),
    right("a50_counters_in_turn/kernel", Kind.NOW_AND_THEN, repeats=600),
    right("a51_atomic_maximum/kernel", Kind.NOW_AND_THEN),
    right("a52_workspace_per_call/kernel", Kind.AT_ONCE, repeats=600),
    right("a53_barrier_of_two/kernel", Kind.RACE)
    if usable_cores() > 1
    else wrong("a53_barrier_of_two/kernel", Kind.RACE, frozenset({Outcome.TIMEOUT})),
    wrong("r04_int32_offset/kernel", Kind.INTEGERS, WRONG, "compute them in 64 bits", hidden=True),
    wrong(
        "r50_one_counter_in_300/kernel",
        Kind.NOW_AND_THEN,
        frozenset({Outcome.NONDETERMINISTIC, Outcome.RACE}),
        "wrong in 2 of 600 calls",
        repeats=600,
    ),
    wrong(
        "r51_lost_maximum/kernel", Kind.NOW_AND_THEN, frozenset({Outcome.RACE}), "between two atomic operations of one"
    ),
    wrong(
        "r52_fifteen_workspaces/kernel",
        Kind.AT_ONCE,
        frozenset({Outcome.RACE}),
        "only when 16 or more calls run at once",
        repeats=32,
    ),
    wrong("r01_tail_store_neighbour/kernel", Kind.TAILS, frozenset({Outcome.OUT_OF_BOUNDS}), "past its end"),
    wrong("r02_max_pad_zero/kernel", Kind.PADDING),
    wrong("r05_row_stride_assumed/kernel", Kind.STRIDES),
    wrong(
        "r06_flat_index_noncontig/kernel",
        Kind.STRIDES,
        frozenset({Outcome.WRONG_VALUES, Outcome.WRONG_SHAPE, Outcome.OUT_OF_BOUNDS}),
    ),
    wrong("r08_persistent_trip_count/kernel", Kind.GRID),
    wrong("r09_fp16_accumulator/kernel", Kind.NARROW),
    wrong("r10_softmax_no_max/kernel", Kind.OVERFLOW),
    wrong("r11_nan_dropped/kernel", Kind.NAN),
    wrong("r12_argmax_merge/kernel", Kind.MERGING),
    wrong("r13_uninit_upper_triangle/kernel", Kind.UNWRITTEN, WRONG, "returned without ever having been written"),
    wrong("r14_dtype_promotion/kernel", Kind.PROMOTION, frozenset({Outcome.WRONG_DTYPE})),
    wrong("r15_scatter_duplicates/kernel", Kind.DUPLICATES, WRONG, "conflicting lanes"),
    wrong("r16_mirror_in_place/kernel", Kind.IN_PLACE, frozenset({Outcome.WRONG_VALUES, Outcome.RACE})),
    wrong("r17_lost_updates/kernel", Kind.RACE, frozenset({Outcome.WRONG_VALUES, Outcome.RACE}), "in program"),
    wrong("r18_init_vs_atomic/kernel", Kind.RACE, frozenset({Outcome.RACE}), "order in which programs run"),
    wrong("r19_chained_spin_hang/kernel", Kind.RACE, frozenset({Outcome.TIMEOUT}), "order in which programs run"),
    wrong("r20_tuning_on_live_buffers/kernel", Kind.CONFIGS),
    wrong("r21_cache_by_pointer/kernel", Kind.STATE, WRONG, "nearly the same contents"),
    wrong(
        "r23_lazy_subclass/kernel",
        Kind.HOST,
        frozenset({Outcome.NOT_IN_PLAN, Outcome.WRONG_VALUES, Outcome.WRONG_DTYPE}),
    ),
    wrong("r24_torch_fallback/kernel", Kind.HOST, frozenset({Outcome.NOT_IN_PLAN})),
    wrong("r25_input_mutation/kernel", Kind.IN_PLACE, frozenset({Outcome.MUTATED_INPUT, Outcome.WRONG_VALUES})),
    wrong(
        "r26_patch_compare/kernel",
        Kind.HOST,
        frozenset({Outcome.WRONG_VALUES, Outcome.SANDBOX_VIOLATION, Outcome.REJECTED}),
    ),
    wrong("r28_stale_workspace/kernel", Kind.STATE, frozenset({Outcome.WRONG_VALUES, Outcome.NOT_IN_PLAN})),
    wrong("r29_cache_by_identity/kernel", Kind.STATE),
    wrong(
        "r30_masked_lanes_summed/kernel",
        Kind.PADDING,
        frozenset({Outcome.UNINITIALIZED_READ}),
        "value = tl.load(x + row * n + columns",
    ),
    wrong("r31_neighbour_past_the_end/kernel", Kind.TAILS, frozenset({Outcome.OUT_OF_BOUNDS}), "past the last element"),
    wrong("row_min/wrong_pad_zero", Kind.PADDING),
    wrong("row_min/wrong_no_mask", Kind.PADDING, STRAY),
    right("row_min/right_clamped", Kind.PADDING),
    right("row_min/right_negated_maximum", Kind.PADDING),
    wrong("row_product/wrong_pad_zero", Kind.PADDING),
    right("row_product/right_through_logarithms", Kind.PADDING),
    right("logsumexp/right_online", Kind.MASKED),
    right("logsumexp/right_finite_floor", Kind.MASKED),
    wrong("logsumexp/wrong_masked_row", Kind.MASKED),
    wrong("logsumexp/wrong_not_rescaled", Kind.MERGING),
    wrong("logsumexp/wrong_no_maximum", Kind.OVERFLOW),
    right("layer_norm/right_two_passes", Kind.CANCELLING),
    wrong("layer_norm/wrong_shifted_by_the_first", Kind.CANCELLING, hidden=True),
    wrong("layer_norm/wrong_one_pass", Kind.CANCELLING),
    wrong("layer_norm/wrong_padding_in_variance", Kind.PADDING),
    wrong("layer_norm/wrong_divides_by_block", Kind.PADDING),
    wrong("layer_norm/wrong_eps_outside", Kind.FORMULA),
    wrong("layer_norm/wrong_unbiased", Kind.FORMULA),
    right("deviation/right_merged", Kind.MERGING),
    wrong("deviation/wrong_equal_counts", Kind.MERGING),
    wrong("deviation/wrong_within_blocks", Kind.MERGING),
    wrong("row_softmax/wrong_one_size", Kind.SIZES, hidden=True),
    wrong("row_softmax/wrong_band", Kind.SIZES),
    wrong("row_softmax/wrong_rows_band", Kind.SIZES, hidden=True),
    right("row_softmax/right_table", Kind.SIZES),
    right("matmul_bias/right_tiles", Kind.TAILS),
    right("matmul_bias/right_padded", Kind.TAILS),
    right("matmul_bias/right_split_k", Kind.SPLIT),
    right("matmul_bias/right_swizzled", Kind.INDEX_MAP),
    wrong("matmul_bias/wrong_bias_of_each_split", Kind.SPLIT),
    wrong("matmul_bias/wrong_k_tail", Kind.TAILS),
    wrong("matmul_bias/wrong_whole_tiles", Kind.TAILS),
    wrong("matmul_bias/wrong_bias_by_row", Kind.BROADCAST, STRAY),
    wrong("matmul_bias/wrong_rhs_dense", Kind.STRIDES),
    wrong("matmul_bias/wrong_narrow_sum", Kind.NARROW),
    wrong("matmul_bias/wrong_half_precision", Kind.PRECISION),
    wrong("matmul_bias/wrong_one_column_of_k", Kind.ONE),
    wrong("matmul_bias/wrong_last_group", Kind.INDEX_MAP, STRAY),
    right("transpose_add/right_strides", Kind.STRIDES),
    wrong("transpose_add/wrong_square_only", Kind.SQUARE, STRAY),
    wrong("transpose_add/wrong_grid_swapped", Kind.SQUARE),
    wrong("transpose_add/wrong_one_stride_for_both", Kind.STRIDES, STRAY),
    right("scale_heads/right_strides", Kind.STRIDES),
    right("scale_heads/right_contiguous_copy", Kind.STRIDES),
    wrong("scale_heads/wrong_map_of_square", Kind.SQUARE, STRAY),
    wrong("scale_heads/wrong_scale_dense", Kind.EXPANDED, STRAY),
    wrong("scale_heads/wrong_rows_dense", Kind.STRIDES, STRAY),
    right("middle_mean/right_columns", Kind.INDEX_MAP),
    wrong("middle_mean/wrong_outer_step", Kind.SQUARE, STRAY),
    wrong("middle_mean/wrong_narrow_total", Kind.NARROW),
    wrong("middle_mean/wrong_every_second", Kind.SAMPLING),
    right("attention/right_online", Kind.ATTENTION),
    right("attention/right_two_exponentials", Kind.ATTENTION),
    wrong("attention/wrong_causal_from_start", Kind.ATTENTION),
    wrong("attention/wrong_causal_by_one", Kind.ATTENTION),
    wrong("attention/wrong_heads_in_turn", Kind.INDEX_MAP),
    wrong("attention/wrong_shrink_forgotten", Kind.MERGING),
    wrong("attention/wrong_no_rescue", Kind.OVERFLOW),
    wrong("attention/wrong_batch_forgotten", Kind.INDEX_MAP),
    wrong("attention/wrong_scale_of_block", Kind.PADDING),
    right("window_sum/right_masked", Kind.WINDOW),
    wrong("window_sum/wrong_by_one", Kind.WINDOW),
    wrong("window_sum/wrong_row_before", Kind.WINDOW, STRAY),
    wrong("window_sum/wrong_within_block", Kind.WINDOW),
    right("segment_mean/right_loop", Kind.SEGMENTS),
    wrong("segment_mean/wrong_empty", Kind.SEGMENTS),
    wrong("segment_mean/wrong_at_least_one", Kind.SEGMENTS, STRAY),
    wrong("segment_mean/wrong_skips_empty", Kind.UNWRITTEN, UNSET),
    wrong("segment_mean/wrong_last_to_the_end", Kind.SLACK),
    right("segment_scale/right_last_start", Kind.SEGMENTS),
    wrong("segment_scale/wrong_slack_unwritten", Kind.SLACK, UNSET),
    wrong("segment_scale/wrong_first_start", Kind.SEGMENTS),
    wrong("segment_scale/wrong_even_segments", Kind.SEGMENTS),
    right("embedding_grad/right_atomics", Kind.DUPLICATES),
    right("embedding_grad/right_every_token", Kind.DUPLICATES),
    wrong("embedding_grad/wrong_lost_updates", Kind.DUPLICATES, RACED),
    wrong("embedding_grad/wrong_last_wins", Kind.DUPLICATES, RACED),
    wrong("embedding_grad/wrong_padding_added", Kind.INDICES),
    wrong("embedding_grad/wrong_padding_is_zero", Kind.INDICES),
    wrong("embedding_grad/wrong_gradient_dense", Kind.EXPANDED, STRAY),
    right("take_rows/right_wrapped", Kind.INDICES),
    wrong("take_rows/wrong_negative", Kind.INDICES, STRAY),
    wrong("take_rows/wrong_absolute", Kind.INDICES, STRAY),
    wrong("take_rows/wrong_storage", Kind.OFFSET, STRAY),
    right("running_sum/right_carried", Kind.SCAN),
    right("running_sum/right_two_launches", Kind.STATE, at_once=1),
    wrong("running_sum/wrong_carry_replaced", Kind.SCAN),
    wrong("running_sum/wrong_narrow", Kind.INTEGERS, hidden=True),
    wrong("running_sum/wrong_exclusive_start", Kind.SCAN),
    right("to_int8/right_by_hand", Kind.ROUNDING),
    right("to_int8/right_magic_number", Kind.ROUNDING),
    wrong("to_int8/wrong_half_up", Kind.ROUNDING),
    wrong("to_int8/wrong_truncated", Kind.ROUNDING),
    wrong("to_int8/wrong_wraps", Kind.SATURATION),
    wrong("to_int8/wrong_symmetric", Kind.SATURATION),
    wrong("to_int8/wrong_zero_before_rounding", Kind.SATURATION),
    right("unpack_int4/right_compared", Kind.PACKED),
    right("unpack_int4/right_shifted", Kind.PACKED),
    wrong("unpack_int4/wrong_unsigned", Kind.PACKED),
    wrong("unpack_int4/wrong_order", Kind.PACKED),
    wrong("unpack_int4/wrong_groups_by_row", Kind.PACKED, STRAY),
    wrong("unpack_int4/wrong_minus_eight", Kind.PACKED),
    right("swiglu/right_halves", Kind.HALVES),
    right("swiglu/right_rounded_between", Kind.ROUNDING),
    wrong("swiglu/wrong_halves_swapped", Kind.HALVES),
    wrong("swiglu/wrong_interleaved", Kind.HALVES),
    wrong("swiglu/wrong_offset_of_block", Kind.HALVES, STRAY),
    right("rope/right_in_place", Kind.IN_PLACE),
    wrong("rope/wrong_start_forgotten", Kind.INDEX_MAP),
    wrong("rope/wrong_halves", Kind.HALVES),
    wrong("rope/wrong_uses_turned", Kind.IN_PLACE),
    wrong("rope/wrong_sine_sign", Kind.FORMULA),
    right("clip/right_compared", Kind.NAN),
    right("clip/right_propagated", Kind.NAN),
    wrong("clip/wrong_nan_dropped", Kind.NAN),
    wrong("clip/wrong_maximum", Kind.NAN),
    wrong("clip/wrong_bound_by_column", Kind.BROADCAST, STRAY),
    wrong("clip/wrong_step", Kind.STRIDES, STRAY),
    right("copy_sign/right_by_bits", Kind.ZEROS),
    wrong("copy_sign/wrong_compared", Kind.ZEROS),
    wrong("copy_sign/wrong_multiplied", Kind.ZEROS),
    right("tiny_norm/right_plain", Kind.TINY),
    right("tiny_norm/right_scaled", Kind.TINY),
    wrong("tiny_norm/wrong_added_eps", Kind.TINY),
    wrong("tiny_norm/wrong_through_half", Kind.TINY),
    right("copy_sign/right_divided", Kind.ZEROS),
    wrong("copy_sign/wrong_negated", Kind.ZEROS),
    right("cross_entropy/right_atomics", Kind.SPLIT),
    wrong("cross_entropy/wrong_ignored_counted", Kind.INDICES),
    wrong("cross_entropy/wrong_ignored_in_loss", Kind.INDICES),
    wrong("cross_entropy/wrong_smoothing_of_block", Kind.PADDING),
    wrong("cross_entropy/wrong_last_block", Kind.TAILS, STRAY),
    wrong("cross_entropy/wrong_empty_mean", Kind.ONE),
    right("order_of/right_counted", Kind.TIES),
    wrong("order_of/wrong_ties_reversed", Kind.TIES),
    wrong("order_of/wrong_ties_collide", Kind.TIES, STRAY),
    wrong("order_of/wrong_through_float16", Kind.PRECISION, STRAY),
    right("max_and_where/right_three", Kind.TIES),
    wrong("max_and_where/wrong_last_place", Kind.TIES),
    wrong("max_and_where/wrong_padding_counts", Kind.MASKED, hidden=True),
    wrong("max_and_where/wrong_count_unwritten", Kind.UNWRITTEN, UNSET),
    wrong("max_and_where/wrong_least_integer", Kind.PADDING),
    right("histogram/right_atomics", Kind.DUPLICATES),
    right("histogram/right_kept_counts", Kind.STATE, at_once=1),
    wrong("histogram/wrong_kept_counts", Kind.STATE, KEPT),
    wrong("histogram/wrong_result_shared", Kind.STATE, KEPT),
    wrong("histogram/wrong_not_cleared", Kind.UNWRITTEN, UNSET),
    wrong("histogram/wrong_lost_counts", Kind.DUPLICATES, RACED),
    wrong("histogram/wrong_empty", Kind.ONE, UNSET),
    right("column_mean/right_last_arriver", Kind.RACE),
    wrong("column_mean/wrong_last_program", Kind.RACE, RACED),
    wrong("column_mean/wrong_counted_first", Kind.RACE, RACED),
    wrong("column_mean/wrong_sums_overwritten", Kind.RACE, RACED),
    right("scale_shift/right_tuned", Kind.CONFIGS),
    right("scale_shift/right_heuristic", Kind.CONFIGS),
    right("scale_shift/right_pruned", Kind.CONFIGS),
    right("scale_shift/right_persistent", Kind.GRID),
    right("scale_shift/right_fallback", Kind.HOST),
    right("scale_shift/right_empty_grid", Kind.ONE),
    wrong("scale_shift/wrong_second_config", Kind.CONFIGS),
    wrong("scale_shift/wrong_number_folded", Kind.FOLDED),
    wrong("scale_shift/wrong_trips", Kind.GRID, hidden=True),
    wrong("scale_shift/wrong_whole_blocks", Kind.TAILS),
    wrong("scale_shift/wrong_torch_for_small", Kind.HOST, OUTSIDE),
    wrong("scale_shift/wrong_decoy", Kind.HOST, OUTSIDE),
    wrong("scale_shift/wrong_first_contents", Kind.STATE, KEPT),
    right("conv1d/right_taps", Kind.EDGES),
    right("conv1d/right_clamped", Kind.EDGES),
    wrong("conv1d/wrong_far_end", Kind.EDGES, STRAY),
    wrong("conv1d/wrong_padding_moves", Kind.EDGES),
    wrong("conv1d/wrong_channel_of_batch", Kind.SQUARE),
    right("max_pool/right_windows", Kind.EDGES),
    wrong("max_pool/wrong_reaches_over", Kind.EDGES),
    wrong("max_pool/wrong_zero_beyond", Kind.PADDING),
    wrong("max_pool/wrong_whole_windows", Kind.EDGES, SHAPED),
    right("resize/right_corners", Kind.EDGES),
    wrong("resize/wrong_centres", Kind.EDGES),
    wrong("resize/wrong_nearest", Kind.FORMULA),
    right("paged_sum/right_tokens", Kind.PAGES),
    wrong("paged_sum/wrong_whole_pages", Kind.PAGES, STRAY),
    wrong("paged_sum/wrong_cache_in_order", Kind.PAGES),
    wrong("paged_sum/wrong_pages_of_first", Kind.PAGES),
    right("rms_norm/right_as_reference", Kind.ROUNDING),
    right("rms_norm/right_rounded_once", Kind.ROUNDING),
    wrong("rms_norm/wrong_squares_narrow", Kind.OVERFLOW),
    wrong("rms_norm/wrong_one_plus_weight", Kind.FORMULA),
    wrong("rms_norm/wrong_no_eps", Kind.FORMULA),
    right("group_norm/right_flat", Kind.INDEX_MAP),
    wrong("group_norm/wrong_per_channel", Kind.ONE),
    wrong("group_norm/wrong_eps_of_batch_norm", Kind.TINY),
    right("fp8_scale/right_blocks", Kind.PACKED),
    wrong("fp8_scale/wrong_last_block", Kind.TAILS),
    wrong("fp8_scale/wrong_rows_of_whole_blocks", Kind.TAILS, STRAY),
    right("a07_seeded_dropout/right_shuffled", Kind.RANDOM),
    wrong("a07_seeded_dropout/wrong_seed_ignored", Kind.RANDOM),
    wrong("a07_seeded_dropout/wrong_not_scaled", Kind.RANDOM),
    wrong("a07_seeded_dropout/wrong_rate_reversed", Kind.RANDOM),
    right("n_attention/right_flash", Kind.PRECISION),
    wrong("n_attention/wrong_dropped_key", Kind.ATTENTION),
    wrong("n_attention/wrong_dressed", Kind.PRECISION),
    right("n_rms_norm/right_cast_before", Kind.ROUNDING),
    right("n_rms_norm/right_cast_after", Kind.ROUNDING),
    wrong("n_rms_norm/wrong_narrow_squares", Kind.NARROW),
    right("n_matmul/right_sequential", Kind.NARROW),
    right("n_matmul/right_tree", Kind.NARROW),
    right("n_matmul/right_split_k", Kind.SPLIT),
    wrong("n_matmul/wrong_half_sums", Kind.NARROW),
    wrong("n_matmul/wrong_tf32", Kind.PRECISION),
    wrong("n_matmul/wrong_dressed", Kind.PRECISION),
    wrong("n_matmul/wrong_split_ends", Kind.SPLIT),
    right("n_long_sum/right_blocks", Kind.TAILS),
    right("n_long_sum/right_narrow_blocks", Kind.TAILS),
    wrong("n_long_sum/wrong_last_element", Kind.TAILS),
    wrong("n_long_sum/wrong_dropped_lane", Kind.SAMPLING),
    right("n_tiny/right_multiplied", Kind.TINY),
    right("n_tiny/right_divided", Kind.TINY),
    wrong("n_tiny/wrong_flushed", Kind.TINY),
    wrong("n_tiny/wrong_through_half", Kind.TINY),
    right("n_top_four/right_last_of_equals", Kind.TIES),
    wrong("n_top_four/wrong_same_place_twice", Kind.TIES),
    wrong("n_top_four/wrong_equals_lost", Kind.TIES),
)

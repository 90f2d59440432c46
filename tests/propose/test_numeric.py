from __future__ import annotations

import ast
import math
from collections.abc import Mapping

import pytest

from kernelsmith import library
from kernelsmith.model import ConfigChoice, ConfigTime, Evaluation, Workload, WorkloadChoice
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.proposal import Candidate, Trial
from kernelsmith.propose.numeric import MAX_NEW, NumericSearch, pruned, tuners

CPU_KNOBS = ("num_warps", "num_stages")
LIMITS = {"tile_elements": 1 << 20}
HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n"


def module(configs: str, *, before: str = "", body: str = "pass") -> str:
    return f"""{HEAD}{before}# é: offsets are bytes
@triton.autotune(configs={configs}, key=["n"])
@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    {body}
"""


def trial(source: str, *texts: str, kernel: str = "kernel") -> Trial:
    choices = tuple(
        WorkloadChoice(workload=Workload(dims={"N": n}), configs=(ConfigChoice(kernel=kernel, index=0, text=text),))
        for n, text in enumerate(texts, 1)
    )
    evaluation = Evaluation(outcome=Outcome.PASSED, stage=Stage.BENCH, choices=choices)
    return Trial(number=1, candidate=Candidate(source=source, origin="test"), evaluation=evaluation)


def blocks(source: str) -> list[int]:
    (tuner,) = tuners(source)
    assert tuner.configs is not None
    return [int(dict(config.constants)["BLOCK"]) for config in tuner.configs]


@pytest.mark.parametrize(
    ("configs", "before"),
    [
        ('[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512}, num_warps=8)]', ""),
        ('[triton.Config({"BLOCK": b}) for b in (256, 512)]', ""),
        ('[triton.Config({"BLOCK": b}, num_warps=w) for b, w in SIZES]', "SIZES = [(256, 4), (512, 8)]\n"),
        ("CONFIGS", 'CONFIGS = [triton.Config(kwargs={"BLOCK": b}) for b in (256, 512)]\n'),
        ('[triton.Config({"BLOCK": b}, num_warps=w) for b in [256, 512] for w in [4]]', ""),
    ],
)
def test_configurations_are_read_however_they_are_written(configs: str, before: str) -> None:
    assert blocks(module(configs, before=before)) == [256, 512]


@pytest.mark.parametrize("configs", ["make()", '[triton.Config({"BLOCK": 2**i}) for i in range(9)]', "CONFIGS"])
def test_what_would_have_to_be_run_is_not_guessed(configs: str) -> None:
    (tuner,) = tuners(module(configs))
    assert tuner.configs is None


def timed(source: str, milliseconds: Mapping[int, float | None]) -> Trial:
    """A verdict that says what every block took."""
    right = {block: ms for block, ms in milliseconds.items() if ms is not None}
    winner = trial(source, f"{{'BLOCK': {min(right, key=lambda block: right[block])}}}")
    assert winner.evaluation is not None
    tried = tuple(
        ConfigTime(kernel="kernel", text=f"{{'BLOCK': {block}}}", workload="N=1", ms=ms)
        for block, ms in milliseconds.items()
    )
    return winner.model_copy(update={"evaluation": winner.evaluation.model_copy(update={"tried": tried})})


def test_a_step_keeps_the_winner_and_begins_beside_it() -> None:
    source = module('[triton.Config({"BLOCK": b}, num_warps=8) for b in (256, 512)]')
    stepped = NumericSearch(0).step(trial(source, "{'BLOCK': 512}, num_warps=8, num_stages=3"), LIMITS, CPU_KNOBS)
    assert stepped is not None
    assert blocks(stepped)[:2] == [512, 1024], "256 was listed, and lost"
    assert len(blocks(stepped)) == 1 + MAX_NEW - 1, "all that is left between a sixteenth and sixteen times"
    assert stepped.split("@triton.jit")[1] == source.split("@triton.jit")[1]
    ast.parse(stepped)


def test_the_search_follows_the_times_to_their_end() -> None:
    search, took = NumericSearch(0), {}
    source = module('[triton.Config({"BLOCK": b}) for b in (64, 128, 256)]')
    for _ in range(20):
        took |= {block: 1 + abs(math.log2(block / 16384)) for block in blocks(source)}
        stepped = search.step(timed(source, took), LIMITS, CPU_KNOBS)
        if stepped is None:
            break
        assert not took.keys() & set(blocks(stepped)[1:]), "nothing is measured twice"
        source = stepped
    else:
        pytest.fail("it never ends")
    assert min(took, key=lambda block: took[block]) == 16384
    assert len(took) < 16, "a slope needs no walk"


def test_what_failed_and_what_is_near_it_comes_last() -> None:
    source = module('[triton.Config({"BLOCK": b}) for b in (256, 512, 1024, 2048)]')
    stepped = NumericSearch(0).step(timed(source, {256: 1.0, 512: 1.1, 1024: 1.3, 2048: None}), LIMITS, CPU_KNOBS)
    assert stepped is not None
    assert blocks(stepped)[:2] == [256, 128]


def test_every_workloads_winner_is_kept() -> None:
    source = module('[triton.Config({"BLOCK": b}) for b in (128, 256, 512, 1024, 2048)]')
    stepped = NumericSearch(0).step(trial(source, "{'BLOCK': 128}", "{'BLOCK': 2048}"), LIMITS, CPU_KNOBS)
    assert stepped is not None
    assert blocks(stepped)[:2] == [128, 2048]
    assert not {256, 512, 1024} & set(blocks(stepped)), "losers are not measured again"


def test_launch_options_are_searched_only_where_they_matter() -> None:
    source = module("[triton.Config({'BLOCK': 1}, num_warps=4)]")
    winner = trial(source, "{'BLOCK': 1}, num_warps=4, num_stages=3")
    stepped = NumericSearch(0).step(winner, LIMITS, ())
    assert stepped is not None
    (tuner,) = tuners(stepped)
    assert tuner.configs is not None
    assert {dict(config.options)["num_warps"] for config in tuner.configs} >= {4, 8}
    on_cpu = NumericSearch(0).step(winner, LIMITS, CPU_KNOBS)
    assert on_cpu is not None
    assert blocks(on_cpu) == [1, 2, 4, 8, 16]


def test_configurations_that_do_not_differ_on_the_device_are_dropped() -> None:
    source = module('[triton.Config({"BLOCK": b}, num_warps=w) for b in (256, 512) for w in (2, 4, 8)]')
    assert blocks(pruned(source, CPU_KNOBS)) == [256, 512]
    assert pruned(source, ()) == source
    assert pruned(module("make()"), CPU_KNOBS) == module("make()")


def test_limits_hold() -> None:
    source = module("[triton.Config({'BM': 1024, 'BN': 1024, 'OTHER': 48, 'FLAG': True})]", body="tl.dot(x, x)")
    stepped = NumericSearch(0).step(
        trial(source, "{'BM': 1024, 'BN': 1024, 'OTHER': 48, 'FLAG': True}"), LIMITS, CPU_KNOBS
    )
    assert stepped is not None
    (tuner,) = tuners(stepped)
    assert tuner.configs is not None
    sizes = {(dict(c.constants)["BM"], dict(c.constants)["BN"], dict(c.constants)["OTHER"]) for c in tuner.configs}
    assert {(1024, 1024, 48), (512, 1024, 48), (1024, 512, 48)} <= sizes
    assert all(bm * bn <= LIMITS["tile_elements"] and other == 48 and min(bm, bn) >= 16 for bm, bn, other in sizes)
    small = module("[triton.Config({'BLOCK': 16})]", body="tl.dot(x, x)")
    shrunk = NumericSearch(0).step(trial(small, "{'BLOCK': 16}"), LIMITS, CPU_KNOBS)
    assert shrunk is not None
    assert blocks(shrunk) == [16, 32, 64, 128, 256]


def test_a_kernel_with_a_hook_is_left_alone() -> None:
    source = module("[triton.Config({'BLOCK': 16}, pre_hook=clear)]")
    assert NumericSearch(0).step(trial(source, "{'BLOCK': 16}"), LIMITS, CPU_KNOBS) is None


def test_text_that_is_no_module_is_left_alone() -> None:
    assert tuners("def (") == ()
    assert NumericSearch(0).step(trial("def (", "{'BLOCK': 16}"), LIMITS, CPU_KNOBS) is None


def test_every_kernel_of_the_library_can_be_searched() -> None:
    for kernel in library.kernels():
        found = tuners(kernel.source)
        assert found, kernel.file
        assert all(tuner.configs for tuner in found), kernel.file


def test_the_same_seed_gives_the_same_step() -> None:
    text = "{'BM': 64, 'BN': 64, 'BK': 64}"
    steps = {NumericSearch(3).step(trial(module(f"[triton.Config({text})]"), text), LIMITS, ()) for _ in range(3)}
    assert len(steps) == 1

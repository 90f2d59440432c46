from __future__ import annotations

import ast

import pytest

from kernelsmith import library
from kernelsmith.model import ConfigChoice, Evaluation, Workload, WorkloadChoice
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.proposal import Candidate, Trial
from kernelsmith.propose.numeric import Config, NumericSearch, pruned, tuners

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


def test_a_step_keeps_the_winner_and_adds_its_neighbours() -> None:
    source = module('[triton.Config({"BLOCK": b}, num_warps=8) for b in (256, 512)]')
    stepped = NumericSearch(0).step(trial(source, "{'BLOCK': 512}, num_warps=8, num_stages=3"), LIMITS, CPU_KNOBS)
    assert stepped is not None
    assert blocks(stepped) == [512, 1024]
    assert stepped.split("@triton.jit")[1] == source.split("@triton.jit")[1]
    ast.parse(stepped)


def test_the_search_goes_on_from_the_new_winner_and_ends() -> None:
    search = NumericSearch(0)
    source = module('[triton.Config({"BLOCK": 512})]')
    winner, seen = 512, {512}
    for _ in range(20):
        stepped = search.step(trial(source, f"{{'BLOCK': {winner}}}"), LIMITS, CPU_KNOBS)
        if stepped is None:
            break
        source = stepped
        assert not seen & set(blocks(source)[1:])
        seen |= set(blocks(source))
        winner = min(seen, key=lambda block: abs(block - 4096))
    assert winner == 4096
    assert seen == {256, 512, 1024, 2048, 4096, 8192}


def test_every_workloads_winner_is_kept() -> None:
    source = module('[triton.Config({"BLOCK": b}) for b in (128, 256, 512, 1024, 2048)]')
    stepped = NumericSearch(0).step(trial(source, "{'BLOCK': 128}", "{'BLOCK': 2048}"), LIMITS, CPU_KNOBS)
    assert stepped is not None
    assert sorted(blocks(stepped)) == [64, 128, 2048, 4096]


def test_launch_options_are_searched_only_where_they_matter() -> None:
    source = module("[triton.Config({'BLOCK': 1}, num_warps=4)]")
    winner = trial(source, "{'BLOCK': 1}, num_warps=4, num_stages=3")
    stepped = NumericSearch(0).step(winner, LIMITS, ())
    assert stepped is not None
    (tuner,) = tuners(stepped)
    assert tuner.configs is not None
    assert Config((("BLOCK", 1),), (("num_warps", 8), ("num_stages", 3))) in tuner.configs
    on_cpu = NumericSearch(0).step(winner, LIMITS, CPU_KNOBS)
    assert on_cpu is not None
    assert blocks(on_cpu) == [1, 2]


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
    assert sizes == {(1024, 1024, 48), (512, 1024, 48), (1024, 512, 48)}
    small = module("[triton.Config({'BLOCK': 16})]", body="tl.dot(x, x)")
    shrunk = NumericSearch(0).step(trial(small, "{'BLOCK': 16}"), LIMITS, CPU_KNOBS)
    assert shrunk is not None
    assert blocks(shrunk) == [16, 32]


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

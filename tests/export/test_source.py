from __future__ import annotations

import ast
import textwrap

import pytest

from kernelsmith.errors import KernelsmithError
from kernelsmith.export.kernel import bake
from kernelsmith.export.reference import strip
from kernelsmith.export.source import keep_reachable
from kernelsmith.model import ConfigChoice, Workload, WorkloadChoice
from tests.export.packages import ROOT, kernel_source


def dedented(text: str) -> str:
    return textwrap.dedent(text).strip() + "\n"


KERNEL = dedented(
    '''
    """Doc."""
    import torch
    import triton
    import triton.language as tl

    SIZES = [64, 128]  # tried
    KEPT = 3

    def fewer(configs, named_args, **kwargs):
        return configs[:1]

    @triton.autotune(
        configs=[triton.Config({"B": b}) for b in SIZES],
        key=["n"],
        prune_configs_by={"early_config_prune": fewer},
    )
    @triton.jit
    def k(x, n, B: tl.constexpr):
        # a comment that stays
        pass

    def op(x):
        k[(KEPT,)](x, 1)
        return x
    '''
)


def choice(label: int, index: int, text: str) -> WorkloadChoice:
    configs = (ConfigChoice(kernel="k", index=index, text=text),)
    return WorkloadChoice(workload=Workload(dims={"N": label}), configs=configs)


def test_one_configuration_per_workload_replaces_the_search_and_all_that_only_it_used() -> None:
    baked = bake(KERNEL, [choice(5, 0, "{'B': 64}"), choice(9, 1, "{'B': 128}, num_warps=8")], "op")
    ast.parse(baked)
    for gone in ("autotune", "SIZES", "fewer", "import torch"):
        assert gone not in baked
    assert "    triton.Config({'B': 64}),  # N=5\n    triton.Config({'B': 128}, num_warps=8),  # N=9\n" in baked
    assert "# a comment that stays" in baked
    assert "KEPT = 3" in baked


def test_equal_configurations_are_written_once() -> None:
    baked = bake(KERNEL, [choice(5, 0, "{'B': 64}"), choice(9, 0, "{'B': 64}")], "op")
    assert "@baked(triton.Config({'B': 64}))\n@triton.jit" in baked


def test_a_kernel_no_workload_launched_keeps_its_first_configuration() -> None:
    baked = bake(KERNEL, [], "op")
    assert '@baked(([triton.Config({"B": b}) for b in SIZES])[0])' in baked
    assert "SIZES = [64, 128]" in baked


def test_a_configuration_with_a_hook_is_taken_from_the_candidate_s_own_list() -> None:
    hooked = KERNEL.replace('triton.Config({"B": b})', 'triton.Config({"B": b}, pre_hook=fewer)')
    baked = bake(hooked, [choice(5, 1, "{'B': 128}")], "op")
    assert "for b in SIZES])[1])" in baked
    assert "def fewer" in baked


@pytest.mark.parametrize(
    "text",
    [
        "{'B': 64}), print('owned'), triton.Config({}",
        "{'B': print('owned')}",
        "{'B': (lambda: 64)()}",
        "{'B': os.sep}",
        "**{'B': 64}",
        "<function f at 0x7f>",
    ],
)
def test_a_configuration_that_is_more_than_literals_is_taken_from_the_candidates_own_list(text: str) -> None:
    baked = bake(KERNEL, [choice(5, 1, text)], "op")
    assert '@baked(([triton.Config({"B": b}) for b in SIZES])[1])' in baked


def test_a_configuration_may_name_a_type() -> None:
    baked = bake(KERNEL, [choice(5, 1, "{'T': triton.language.float32, 'B': -1}, num_warps=8, num_stages=3")], "op")
    assert "@baked(triton.Config({'T': triton.language.float32, 'B': -1}, num_warps=8, num_stages=3))" in baked


def test_names_imported_from_triton_still_find_it() -> None:
    source = KERNEL.replace("import triton\n", "from triton import autotune, jit\n").replace(
        "triton.autotune", "autotune"
    )
    baked = bake(source.replace("@triton.jit", "@jit"), [choice(5, 0, "{'B': 64}")], "op")
    assert "import triton\n" in baked
    assert "from triton import jit\n" in baked


def test_a_kernel_without_search_is_left_alone() -> None:
    source = dedented("import triton\n\n@triton.jit\ndef k(x):\n    pass\n\n\ndef op(x):\n    k[(1,)](x)\n")
    assert bake(source, [], "op") == source


def test_statements_with_effects_stay_with_what_they_need() -> None:
    source = "import os\nimport sys\nA = 1\nB = 2\nprint(A)\n\n\ndef f():\n    return 1\n"
    assert keep_reachable(source, ["f"]) == "A = 1\nprint(A)\n\n\ndef f():\n    return 1\n"


def test_the_reference_loses_its_declarations() -> None:
    text, check = strip((ROOT / "examples" / "argmax.py").read_text(), "argmax")
    assert check == "check"
    assert "kernelsmith" not in text
    assert "Dim" not in text
    assert "@" not in text
    namespace: dict[str, object] = {}
    exec(text, namespace)
    assert callable(namespace["argmax"])


def test_a_check_given_as_a_lambda_is_kept_under_a_name() -> None:
    source = (ROOT / "examples" / "argmax.py").read_text().replace("check=check", "check=lambda o, e, x: True")
    text, check = strip(source, "argmax")
    assert check == "check"
    assert "check = lambda o, e, x: True" in text


def test_a_reference_that_uses_a_declaration_is_refused() -> None:
    source = (ROOT / "examples" / "softmax.py").read_text().replace("dim=-1", "dim=-1 if N.high else 0")
    with pytest.raises(KernelsmithError, match="uses N"):
        strip(source, "softmax")


@pytest.mark.parametrize("name", ["softmax", "gelu_bias_matmul", "rope", "attention"])
def test_shipped_kernels_can_be_baked(name: str) -> None:
    ast.parse(bake(kernel_source(name), [], name))

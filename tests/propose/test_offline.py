from __future__ import annotations

from kernelsmith.model import ArgumentInfo, ConfigChoice, Evaluation, OperatorInfo, Seed, Workload, WorkloadChoice
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.proposal import Brief, Candidate, Prompt, TargetFacts, Trial
from kernelsmith.propose import Request
from kernelsmith.propose.offline import OfflineProposer
from kernelsmith.propose.reply import parse
from tests.propose.briefs import CPU

TENSOR = ArgumentInfo(name="x", kind="tensor")
SEED = "import triton\n@triton.jit\ndef k(): pass\ndef {name}(x): return x\n"


def operator(name: str, *arguments: ArgumentInfo, ops: tuple[str, ...], source: str = "") -> OperatorInfo:
    return OperatorInfo(
        name=name,
        kind="native",
        path="op.py",
        digest="0",
        source=source,
        doc="",
        signature="",
        arguments=arguments,
        ops=ops,
    )


def brief(info: OperatorInfo, **more: object) -> Brief:
    return Brief.model_validate({"operator": info, "target": CPU, **more})


def proposals(proposer: OfflineProposer, told: Brief, limit: int = 30) -> list[str]:
    found = []
    for _ in range(limit):
        reply = proposer.propose(Request(brief=told, prompt=Prompt(system="", user="")))
        if reply is None:
            return found
        source = parse(reply.text, told.operator.name)
        assert isinstance(source, str), source.reason
        found.append(source)
    raise AssertionError("the proposer does not end")


SOFTMAX = operator("softmax", TENSOR, ops=("aten._softmax",))


def test_the_library_kernel_of_the_name_comes_first_then_the_seeds() -> None:
    seeds = (Seed(source=SEED.format(name="softmax"), origin="inductor"),)
    found = proposals(OfflineProposer(), brief(SOFTMAX, seeds=seeds))
    assert "def softmax_block(" in found[0]
    assert found[1] == seeds[0].source
    assert len(set(found)) == len(found)


def test_a_kernel_of_the_same_operation_is_renamed() -> None:
    found = proposals(OfflineProposer(), brief(operator("my_softmax", TENSOR, ops=("aten._softmax",))))
    assert "def my_softmax(" in found[0]
    assert "def softmax(" not in found[0]
    assert "softmax_block[" in found[0]


def test_other_kernels_wait_for_a_first_verdict() -> None:
    failure = Evaluation(outcome=Outcome.WRONG_VALUES, stage=Stage.CHECK, message="no")
    failed = Trial(number=1, candidate=Candidate(source="x", origin="offline"), evaluation=failure)
    proposer = OfflineProposer()
    assert len(proposals(proposer, brief(SOFTMAX))) == 1
    others = proposals(proposer, brief(SOFTMAX, failures=(failed,)))
    assert others
    assert all("def softmax(" in source for source in others)


def test_kernels_with_other_parameters_are_not_tried() -> None:
    number = ArgumentInfo(name="n", kind="scalar")
    assert proposals(OfflineProposer(), brief(operator("f", number, ops=("aten._softmax",)))) == []


def test_a_kernelbench_problem_gets_a_class_unless_its_model_has_layers() -> None:
    plain = "class Model(nn.Module):\n    def forward(self, x): return torch.softmax(x, dim=1)\n"
    layered = "class Model(nn.Module):\n    def __init__(self): self.f = nn.Linear(3, 3)\n"
    found = proposals(OfflineProposer(), brief(operator("ModelNew", TENSOR, ops=("aten._softmax",), source=plain)))
    assert "return softmax(*inputs)" in found[0]
    assert (
        proposals(OfflineProposer(), brief(operator("ModelNew", TENSOR, ops=("aten._softmax",), source=layered))) == []
    )


def test_what_was_tried_before_is_not_tried_again() -> None:
    first = proposals(OfflineProposer(), brief(SOFTMAX))
    tried = tuple(Candidate(source=source, origin="").id for source in first)
    assert proposals(OfflineProposer(), brief(SOFTMAX, tried=tried)) == []


def test_numbers_are_searched_around_what_passed() -> None:
    source = """import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 1024})], key=[])
@triton.jit
def kernel(BLOCK: tl.constexpr):
    pass


def softmax(x):
    kernel[(1,)]()
"""
    choice = ConfigChoice(kernel="kernel", index=0, text="{'BLOCK': 1024}, num_warps=4, num_stages=3")
    choices = (WorkloadChoice(workload=Workload(), configs=(choice,)),)
    passed = Evaluation(outcome=Outcome.PASSED, stage=Stage.BENCH, choices=choices)
    best = Trial(number=4, candidate=Candidate(source=source, origin="model"), evaluation=passed)
    target = TargetFacts(name="cpu", device="cpu", summary="", useless_knobs=("num_warps", "num_stages"))
    found = proposals(OfflineProposer(), brief(SOFTMAX, best=(best,), target=target))
    assert '{"BLOCK": 2048}' in found[-1]
    assert '{"BLOCK": 512}' in found[-1]


def test_asking_costs_nothing() -> None:
    request = Request(brief=brief(SOFTMAX), prompt=Prompt(system="a" * 1000, user=""))
    assert OfflineProposer().reserve(request).tokens == 0

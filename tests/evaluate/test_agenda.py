"""The order of a check, what is cut when its time is up, and what is said of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kernelsmith.evaluate.check.agenda import Agenda, Budget, named_blocks, unasked
from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.explore import walks
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evidence import Evidence
from kernelsmith.model import Job, OperatorRef
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Level
from kernelsmith.sandbox.wire.messages import Tunable
from kernelsmith.space import Where
from tests.operators.files import made

SUM = """
@operator(x=tensor(M, N, dtypes=FLOATS), w=tensor(N, values="any"), workloads=[workload(M=32, N=128)])
def f(x, w):
    return (x * w).sum(-1)
"""


def job(level: Level, **more: object) -> Job:
    return Job.model_validate(
        {"operator": OperatorRef(path="f.py"), "target": "cpu", "source": "", "seed": 1, "level": level} | more
    )


def agenda(op: LoadedOperator, asked: Job, seen: Counter[int] | None = None) -> Agenda:
    return Agenda(op, asked, (), Counter() if seen is None else seen, Budget(asked))


def whole(one: Agenda) -> Iterator[Case]:
    yield from one.first()
    yield from one.more()


def told(one: Agenda) -> Evidence:
    collector = Collector()
    collector.ran(Where())
    one.tell(collector)
    evidence = collector.evidence(0.0)
    assert evidence is not None
    return evidence


def test_small_cases_come_first_and_nothing_is_left_out(tmp_path: Path) -> None:
    one = agenda(made(tmp_path, SUM), job(Level.QUICK))
    assert list(whole(one)) == one.tried == one.planned
    assert [c.workload is None for c in one.tried] == [True] * (len(one.tried) - 1) + [False]
    assert not any("were not run" in sentence for sentence in told(one).left_out)


def test_where_others_failed_is_tried_first_and_once(tmp_path: Path) -> None:
    op = made(tmp_path, SUM)
    usual = agenda(op, job(Level.QUICK)).planned
    where = Where(dims={"M": 3, "N": 77}, dtypes={"x": "float16", "w": "float32"}, values="tied values")
    known = usual[7]
    tried = list(whole(agenda(op, job(Level.QUICK, revealing=(where, known.where(), Where(dims={"K": 1}))))))
    assert (tried[0].dims, tried[0].values) == ({"M": 3, "N": 77}, Values.TIES)
    assert tried[1] == known
    assert tried.count(known) == 1
    assert len(tried) == len(usual) + 1


def test_sizes_around_the_blocks_of_its_plans_are_tried(tmp_path: Path) -> None:
    seen: Counter[int] = Counter()
    one = agenda(made(tmp_path, SUM), job(Level.QUICK), seen)
    for case in whole(one):
        seen.update([48, case.dims["N"]])
    assert {47, 48, 49} <= {c.dims["N"] for c in one.tried}
    assert one.tried[-1].workload is not None


def test_a_time_that_is_up_leaves_the_workloads_and_says_so(tmp_path: Path) -> None:
    op = made(tmp_path, SUM)
    one = agenda(op, job(Level.FULL, check_seconds=1e-4))
    assert list(whole(one)) == one.workloads
    n = len(one.planned)
    assert (
        f"{n - 1} of {n} cases of level full were not run: the time for cases (7.5e-05 of 0.0001 s) was up"
        in told(one).left_out
    )


def test_sizes_beyond_those_that_are_walked_are_said_to_be_sampled(tmp_path: Path) -> None:
    op = made(tmp_path, 'M = Dim("M", 1, 50)\n' + SUM)
    assert [str(sweep) for sweep in walks(op, Level.EXHAUSTIVE)] == ["M=1..50", "N=1..4096"]
    assert [str(sweep) for sweep in walks(op, Level.FULL)] == ["N=64..8192:64"]
    assert not walks(op, Level.QUICK)
    assert "sizes of N above 4096 were sampled, not walked" in told(agenda(op, job(Level.EXHAUSTIVE))).left_out
    assert not any("sampled, not walked" in sentence for sentence in told(agenda(op, job(Level.FULL))).left_out)


def test_what_the_declaration_rules_out_is_said(tmp_path: Path) -> None:
    assert unasked(made(tmp_path, SUM)) == [
        'no NaN and no infinity in x: not declared (values="any")',
        "contiguous x, w only: no other layout is declared (layouts=)",
    ]


def test_blocks_are_found_in_the_text_and_in_configs_before_other_numbers() -> None:
    tunable = Tunable(kernel="k", configs=("{'BLOCK': 96, 'GROUP': 4}, num_warps=8, num_stages=2",), keys=())
    assert named_blocks("B = 1024\nC = 3000\nD = 8\n", [tunable]) == [96, 1024, 8, 3000]

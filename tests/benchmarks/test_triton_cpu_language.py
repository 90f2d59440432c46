"""The harness around Triton's language tests: choosing, judging, counting, and surviving a crash and a hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.triton_cpu import language, language_worker
from benchmarks.triton_cpu.language_rules import Kind, judge
from benchmarks.triton_cpu.language_worker import Record

CASES = [f"test_{file}.py::test_{number}[{number % 3}]" for file in "ab" for number in range(20)]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", Kind.GPU),
        ("KeyError: 'ttgir'", Kind.GPU),
        ("CompilationError: at 3:4\n<- NotImplementedError: make_block_ptr was removed", Kind.FRONT_END),
        ("AttributeError: module 'triton.language' has no attribute 'new_name'", Kind.FRONT_END),
        ("UnsupportedConstruct: the Triton CPU backend does not support tt.x", Kind.BACKEND),
        ("AssertionError: \nNot equal to tolerance rtol=1e-05", Kind.BACKEND),
        ("KeyError: 'unheard of'", Kind.BACKEND),
        ("AssertionError: ACTUAL: array([False, False])", Kind.BACKEND),
        ("", Kind.BACKEND),
    ],
)
def test_a_failure_is_the_backends_unless_a_rule_says_otherwise(message: str, kind: Kind) -> None:
    found = judge("test_core.py::test_x", message)
    assert found.kind is kind
    assert found.reason


def test_a_sample_is_reproducible_in_order_and_its_shards_make_it_up() -> None:
    sample = language.choose(CASES, sample=11, seed=5)
    assert sample == language.choose(CASES, sample=11, seed=5) != language.choose(CASES, sample=11, seed=6)
    assert sample == sorted(sample, key=CASES.index)
    assert len(set(sample)) == 11
    shards = [language.choose(CASES, sample=11, seed=5, shard=(number, 3)) for number in (1, 2, 3)]
    assert sorted(case for shard in shards for case in shard) == sorted(sample)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_a_choice_by_expression() -> None:
    assert language.choose(CASES, only=r"^test_a.*\[2\]$") == [case for case in CASES[:20] if case.endswith("[2]")]
    assert language.choose(CASES, only="absent") == []


def test_a_few_cases_of_each_function() -> None:
    cases = [f"test_a.py::test_{letter}[{number}]" for letter in "xyz" for number in range(9)]
    chosen = language.choose([*cases, "test_a.py::test_alone"], per_test=2, seed=3)
    assert [case.partition("[")[0][-1] for case in chosen] == [*"xxyyzz", "e"]


def test_the_rate_counts_only_cases_that_reach_their_value_check() -> None:
    records = [
        Record("test_a.py::test_1", "passed"),
        Record("test_a.py::test_2", "skipped", message="Skipped: needs Hopper"),
        Record("test_a.py::test_3", "xfailed"),
        Record("test_a.py::test_4", "failed", message="KeyError: 'ptx'"),
        Record("test_compile_only.py::test_1", "passed"),
        Record("test_b.py::test_1", "failed", message="AssertionError: x"),
        Record("test_b.py::test_2", "crashed", message="crash with status -11"),
        Record("test_b.py::test_3", "timed out", message="time-out after 1 s"),
    ]
    first, second, by_name, total = language.rows(records)
    assert (first.passed, first.failed, first.skipped, first.gpu, first.rate) == (1, 0, 2, 1, 1.0)
    assert (second.passed, second.failed, second.rate) == (0, 3, 0.0)
    assert (by_name.passed, by_name.gpu, by_name.rate) == (0, 1, None)
    assert total.rate == 0.25
    assert language.tally("none", records[1:2]).rate is None


def test_records_survive_a_torn_last_line(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    assert language_worker.load(file) == []
    record = Record("test_a.py::test_1[x]", "failed", 1.5, 0.5, "two\nlines")
    language_worker.append(file, record)
    with file.open("a") as torn:
        torn.write('{"case": "test_a.py::te')
    assert language_worker.load(file) == [record]


TESTS = """
import os, time, pytest
from triton._internal_testing import is_cpu

def test_passes(device):
    assert device == "cpu" and not is_cpu()
def test_skips():
    pytest.skip("needs Hopper")
@pytest.mark.xfail
def test_is_expected_to_fail():
    raise ValueError
def test_crashes():
    os.abort()
def test_fails_of_a_cause():
    try:
        raise KeyError("cause")
    except KeyError as error:
        raise RuntimeError("wrapped") from error
def test_hangs():
    time.sleep(600)
def test_runs_after_the_hang():
    pass
"""
CONFTEST = """
import pytest
def pytest_addoption(parser):
    parser.addoption("--device")
@pytest.fixture
def device(request):
    return request.config.getoption("--device")
"""


def test_a_crash_and_a_hang_cost_one_case_each(tmp_path: Path) -> None:
    folder = tmp_path / language_worker.FOLDER
    folder.mkdir(parents=True)
    (folder.parents[1] / "conftest.py").write_text(CONFTEST)
    (folder / "test_small.py").write_text(TESTS)
    (folder / "test_broken.py").write_text("import no_such_module")
    collected = language_worker.collect(tmp_path)
    assert [case.partition("::test_")[2] for case in collected.cases][:3] == ["passes", "skips", "is_expected_to_fail"]
    assert "no_such_module" in collected.broken["test_broken.py"]

    output = tmp_path / "records.jsonl"
    records = language.measure(tmp_path, collected.cases, output=output, limit_s=2)
    assert {record.case.partition("::test_")[2]: record.outcome for record in records} == {
        "passes": "passed",
        "skips": "skipped",
        "is_expected_to_fail": "xfailed",
        "crashes": "crashed",
        "fails_of_a_cause": "failed",
        "hangs": "timed out",
        "runs_after_the_hang": "passed",
    }
    wrapped = next(record for record in records if record.outcome == "failed")
    assert "RuntimeError: wrapped\n<- KeyError: 'cause'" in wrapped.message
    assert language.measure(tmp_path, collected.cases, output=output) == records  # nothing runs twice
    with pytest.raises(language_worker.WorkerError, match="test_absent"):
        language.measure(tmp_path, ["test_small.py::test_absent"])

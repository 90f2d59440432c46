"""Checked builds on every case that comes with the tests, as their table does it; and the table's own judgement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.triton_cpu import checked_aids
from benchmarks.triton_cpu.checked import Against, judge, judge_other
from benchmarks.triton_cpu.checked_aids import Said
from benchmarks.triton_cpu.checked_cases import Entry, chosen, find, folder, own
from benchmarks.triton_cpu.checked_plans import Recorder, examine
from kernelsmith.faults import Fault, FaultKind

ENTRIES = own()
BY_NAME = {entry.name: entry for entry in ENTRIES}
OTHER_FORM = """
import torch, triton, triton.language as tl
SHOWS = ("short", "long")

def inputs(name):
    yield (torch.ones(64),)
    yield (torch.ones(64 if name == "short" else 65),)

@triton.jit
def negate(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, -tl.load(x + o, mask=o < n))

def kernel_fn(x):
    negate[(triton.cdiv(x.numel(), 64),)](x, x.numel(), B=64)
    return x
"""


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_checked_builds_find_what_is_there_and_nothing_else(entry: Entry, recorder: Recorder) -> None:
    found = [fault for _, fault in examine(entry, recorder)]
    assert judge(entry, found) is Against.SAME, "\n".join(map(str, found))


def test_each_family_has_faults_and_honest_twins() -> None:
    families = {entry.name.partition(":")[0] for entry in ENTRIES}
    for family in families:
        faulty = [entry.fault is not None for entry in ENTRIES if entry.name.startswith(family)]
        assert any(faulty) and not all(faulty), family
    assert {entry.fault for entry in ENTRIES} == {None, *FaultKind}
    kernels = [entry for entry in ENTRIES if entry.fault is not None and not entry.places]
    assert [entry.name for entry in kernels] == ["unwritten:returned_unwritten"], (
        "all others say which line is to blame"
    )


def test_a_folder_of_cases_in_the_other_form(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "r01_unmasked.py").write_text(OTHER_FORM)
    (tmp_path / "b02_unmasked.py").write_text(OTHER_FORM)
    unknown, *_, entry = folder(tmp_path)
    assert (unknown.fault, entry.fault, entry.name) == (None, FaultKind.OUT_OF_BOUNDS, "r01_unmasked:long")
    assert find(entry.reference).reference == entry.reference
    found = examine(entry, recorder)[0][1]
    assert judge(entry, [found]) is Against.SAME and judge(entry, []) is Against.MISSED
    assert judge(unknown, [found]) is Against.FALSE_ALARM


def test_a_report_elsewhere_is_not_the_fault_that_is_there() -> None:
    entry = BY_NAME["bounds:one_past_the_end"]
    right = Fault(FaultKind.OUT_OF_BOUNDS, "k", next(iter(entry.places)), None, (0, 0, 0))
    assert judge(entry, [right]) is Against.SAME
    assert judge(entry, [replace(right, location="bounds.py:1")]) is Against.MISSED
    assert judge(entry, [replace(right, kind=FaultKind.RACE)]) is Against.MISSED


def test_words_choose_cases() -> None:
    assert {entry.name for entry in chosen(ENTRIES, ["arriver", "histogram"])} == {
        "protocols:last_arriver",
        "races:histogram",
    }


def test_what_other_tools_say_is_held_against_what_is_so() -> None:
    faulty, honest = BY_NAME["bounds:one_past_the_end"], BY_NAME["bounds:masked_tail"]
    assert [judge_other(faulty, said) for said in Said] == [
        Against.SAME,
        Against.MISSED,
        Against.CANNOT,
        Against.CANNOT,
    ]
    assert judge_other(honest, Said.FAULT) is Against.FALSE_ALARM


def test_a_tool_that_is_not_there_cannot_run(tmp_path: Path) -> None:
    (answer,) = checked_aids.ask("ttsem", [ENTRIES[0].reference], tmp_path, None)
    assert answer == (ENTRIES[0].reference, Said.CANNOT, "the tool could not be started")

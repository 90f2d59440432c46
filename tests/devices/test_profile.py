"""What profilers leave behind becomes kernels and their times; that there is none is a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith.devices import profile
from kernelsmith.devices.profile import KernelTime

DETAILS = """\ufeffDevice_id,Name,Type,Accelerator Core,Start Time(us),Duration(us)
0,softmax_kernel,softmax_kernel,AI_VECTOR_CORE,1783.1\t,12.25
0,aclnnCast_CastAiCore_Cast,Cast,AI_VECTOR_CORE,1800.3\t,3.5
0,softmax_kernel,softmax_kernel,AI_VECTOR_CORE,1850.9\t,12.75
"""


def test_huaweis_lines_become_kernels_the_longest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "host_1_2_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    folder.mkdir(parents=True)
    (folder / "kernel_details.csv").write_text(DETAILS, encoding="utf-8")
    calls: list[str] = []

    def recorded(kind: str, call: object) -> list[tuple[str, int]]:
        return profile.kernel_details(tmp_path)

    monkeypatch.setattr(profile, "_by_huawei", recorded)
    seen = profile.profile("npu", lambda: calls.append("once before"))
    assert seen.kernels == (KernelTime("softmax_kernel", 2, 25_000), KernelTime("aclnnCast_CastAiCore_Cast", 1, 3_500))
    assert (seen.nanoseconds, seen.note, calls) == (28_500, "", ["once before"])


def test_without_a_profiler_or_its_permission_there_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No module named 'torch_npu'" in profile.profile("npu", list).note
    monkeypatch.setattr(profile, "_by_torch", lambda kind, call: [])
    assert "NVreg_RestrictProfilingToAdminUsers" in profile.profile("cuda", list).note
    with pytest.raises(ZeroDivisionError):
        profile.profile("cuda", lambda: 1 / 0)


def test_huaweis_lines_in_other_columns_are_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "_by_huawei", lambda kind, call: profile.kernel_details(tmp_path))
    assert profile.profile("npu", list).note.startswith("no profile: ValueError")

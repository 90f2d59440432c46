"""Baselines on a device that is not the CPU: their tensors are put there, and its clock counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelsmith.devices import BYTES_VARIABLE, MODULE_VARIABLE, open_device
from kernelsmith.evaluate.clock.baseline import Baselines
from kernelsmith.evaluate.truth.questions import Build, Built, Clock, Clocked, Open
from kernelsmith.model import OperatorRef
from kernelsmith.sandbox.replay.probe import copy_rate
from tests.devices import stand_in
from tests.evaluate.test_evaluate import OPERATOR


def test_a_baseline_works_on_the_devices_memory_and_is_timed_by_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODULE_VARIABLE, "tests.devices.stand_in")
    placed: list[int] = []
    timed: list[int] = []

    class Watched(stand_in.StandIn):
        def place(self, host: torch.Tensor) -> torch.Tensor:
            placed.append(host.numel())
            return super().place(host)

        def time(self, steps: object) -> int:
            timed.append(super().time(steps))  # type: ignore[arg-type]
            return timed[-1]

    monkeypatch.setattr(stand_in, "open_device", Watched)
    (tmp_path / "op.py").write_text(OPERATOR)
    opened = Baselines(Open(operator=OperatorRef(path=str(tmp_path / "op.py")), model_seed=1, threads=1))
    assert opened.answer(Build(baseline="eager", workload=0, seeds=(1, 2))) == Built(available=True)
    assert len(placed) == 8 and min(placed) >= 400_000, "both arguments of each of four calls were put there"
    clocked = opened.answer(Clock(baseline="eager", workload=0, pool=0, flush_bytes=1 << 20))
    assert clocked == Clocked(nanoseconds=timed[0]) and timed[0] > 0


def test_the_device_of_a_process_is_named_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODULE_VARIABLE, "tests.devices.stand_in")
    limits: list[int] = []
    monkeypatch.setattr(stand_in.StandIn, "limit_memory", lambda self, nbytes: limits.append(nbytes))
    assert isinstance(open_device(), stand_in.StandIn) and limits == []
    monkeypatch.setenv(BYTES_VARIABLE, "4096")
    assert copy_rate(open_device()) > 0 and limits == [4096]

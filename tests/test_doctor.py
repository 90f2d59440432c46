"""The doctor: one line per thing that a run needs, a fix where it is missing, never a key."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from kernelsmith import doctor, resources, targets
from kernelsmith.diagnosis import Finding, Health
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Layer
from tests.sandbox.zygotes import everyones_python


def examined(runs: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in doctor.examine(runs)}


def test_a_machine_that_runs_these_tests_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-1234")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    found = examined(tmp_path / "runs")
    assert {name for name, one in found.items() if one.health is Health.FAIL} == set()
    assert {"python", "torch", "triton", "C++ compiler", "Triton backends", "sandbox", "prompts", "targets"} <= set(
        found
    )
    assert "cpu" in found["Triton backends"].detail
    assert (found["OPENAI_API_KEY"].detail, found["ANTHROPIC_API_KEY"].detail.split(" (")[0]) == ("set", "not set")
    assert "canary" not in str(found)


def test_what_is_missing_comes_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KERNELSMITH_CXX", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "file").touch()
    found = examined(tmp_path / "file" / "runs")
    for name, fix in {"C++ compiler": "apt install g++", "runs folder": "--runs DIR"}.items():
        assert found[name].health is Health.FAIL
        assert fix in found[name].fix


def test_versions_outside_of_what_is_tested_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.9.1+cpu", "triton": "4.0rc1", "openai": "2.0", "anthropic": "1.0"}
    monkeypatch.setattr(doctor.importlib.metadata, "version", versions.__getitem__)
    found = {finding.name: finding for finding in doctor._packages()}
    assert [found[name].health for name in versions] == [Health.WARN, Health.WARN, Health.OK, Health.OK]
    supported = targets.load("cpu").triton
    assert f"{supported.at_least} or newer, below {supported.below}" in found["triton"].detail
    assert "2.11 or newer" in found["torch"].detail


def test_the_target_says_which_triton_is_supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = resources.read("targets", "cpu.toml").replace('below = "3.10"', 'below = "3.7"')
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "cpu.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    for version, health in {"3.6.9": Health.OK, "3.7.0": Health.WARN, "3.5.1": Health.WARN}.items():
        monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name, version=version: version)
        found = {finding.name: finding for finding in doctor._packages()}
        assert found["triton"].health is health, version
    (tmp_path / "targets" / "cpu.toml").write_text("not a target")
    assert {finding.name: finding.health for finding in doctor.examine(tmp_path / "runs")}["targets"] is Health.FAIL


def test_layers_of_the_sandbox_that_do_not_hold_come_with_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    for without, health in (((Layer.LANDLOCK,), Health.WARN), ((Layer.LANDLOCK, Layer.NAMESPACES), Health.FAIL)):
        lacking = functools.partial(Zygote, python=everyones_python(), without=without)
        monkeypatch.setattr("kernelsmith.sandbox.children.zygote.Zygote", lacking)
        whole, *missing = doctor.sandbox()
        if health is Health.WARN and len(missing) > 1:
            pytest.skip("no namespaces here")
        assert (whole.name, whole.health) == ("sandbox", health)
        assert "seccomp" in whole.detail and "Landlock" not in whole.detail
        assert [one.name for one in missing][-1] == "sandbox: Landlock"
        assert {one.health for one in missing} == {health}
        assert all(one.fix and one.fix in whole.fix for one in missing)

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import resources, targets
from kernelsmith.errors import UsageError

CPU = resources.read("targets", "cpu.toml")


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path


def test_every_shipped_target_loads_and_has_its_knowledge() -> None:
    assert "cpu" in targets.available()
    for name in targets.available():
        facts = targets.facts(targets.load(name))
        assert facts.name == name
        assert "## Triton" in facts.notes


def test_the_cpu_is_found_by_name_and_by_torch_device() -> None:
    target = targets.resolve("cpu")
    assert (target.name, target.torch_device, target.triton.backend) == ("cpu", "cpu", "cpu")
    assert "num_warps" in targets.facts(target).useless_knobs


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        targets.resolve("warp9")
    assert "warp9" in caught.value.message
    assert "cpu" in caught.value.hint


def test_a_torch_device_that_several_targets_have_must_be_named(tmp_path: Path) -> None:
    card = CPU.replace('torch_device = "cpu"', 'torch_device = "npu"')
    one = folder(tmp_path, **{"npu-a": card.replace('name = "cpu"', 'name = "npu-a"')})
    assert targets.resolve("npu", one).name == "npu-a"
    two = folder(tmp_path, **{"npu-b": card.replace('name = "cpu"', 'name = "npu-b"')})
    with pytest.raises(UsageError, match="npu-a, npu-b"):
        targets.resolve("npu", two)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("[limits]", "[limits]\nwarp_speed = 9", "limits.warp_speed: unknown key"),
        ("[limits]", "[limits]\nalignment_bytes = 0", "limits.alignment_bytes"),
        ('memory_gb_per_s = "measure"', "memory_gb_per_s = { value = 90 }", "source"),
        ('name = "cpu"', 'name = "gpu"', "gpu.toml"),
        ('name = "cpu"', "name = ", "cpu.toml"),
        ("[triton]", "[triton", "cpu.toml"),
    ],
)
def test_a_broken_file_names_file_and_key(tmp_path: Path, old: str, new: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        targets.load("cpu", folder(tmp_path, cpu=CPU.replace(old, new)))
    assert word in f"{caught.value.message} {caught.value.hint}"
    assert str(tmp_path) in caught.value.message


def test_a_peak_has_a_source_or_is_measured(tmp_path: Path) -> None:
    text = CPU.replace('memory_gb_per_s = "measure"', 'memory_gb_per_s = { value = 90, source = "datasheet" }')
    target = targets.load("cpu", folder(tmp_path, cpu=text))
    assert target.peaks.memory_gb_per_s == targets.SourcedPeak(value=90, source="datasheet")
    assert target.peaks.float32_tflop_per_s == "measure"


def test_notes_and_missing_dtypes_reach_the_prompt(tmp_path: Path) -> None:
    text = CPU.replace("useless_knobs", 'notes = "Beware of the leopard."\nuseless_knobs')
    text = text.replace("[limits]", '[limits]\nmissing_dtypes = ["float64"]')
    facts = targets.facts(targets.load("cpu", folder(tmp_path, cpu=text)))
    assert "Beware of the leopard." in facts.notes
    assert facts.limits["missing_dtypes"] == "float64"

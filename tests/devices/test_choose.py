from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith import targets
from kernelsmith.devices import cards, choose
from kernelsmith.errors import UsageError


def driver(folder: Path, *models: str) -> Path:
    """A folder such as NVIDIA's driver shows, with these cards."""
    for number, model in enumerate(models):
        place = folder / f"0000:{number:02x}:00.0"
        place.mkdir()
        (place / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 0\nDevice Minor: \t {number}\n")
    return folder


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Patterns of device files that are taken to be there, one file each."""
    there: set[str] = set()

    def matching(pattern: str) -> list[str]:
        return [pattern.replace("[0-9]*", "0").replace("*", "128")] if pattern in there else []

    monkeypatch.setattr(cards, "matching", matching)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield there


def test_a_name_is_itself_whatever_is_here() -> None:
    assert choose.choose("ascend-910b3").name == "ascend-910b3"
    assert choose.choose("cpu").name == "cpu"


def test_without_an_npu_a_person_learns_what_it_could_be_what_is_missing_and_what_to_do(nodes: set[str]) -> None:
    with pytest.raises(UsageError) as caught:
        choose.choose("npu")
    for word in ("ascend-910b1", "ascend-950", "/dev/davinci[0-9]*", "the Python package torch_npu"):
        assert word in caught.value.message
    assert "--without-device" in caught.value.hint and "kernelsmith targets install ascend-" in caught.value.hint


def test_the_card_that_is_here_decides_what_cuda_means(nodes: set[str], tmp_path: Path) -> None:
    nodes.add("/dev/nvidia[0-9]*")
    for model, name in (
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
        ("NVIDIA GeForce RTX 4090", "nvidia-rtx4090"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100"),
    ):
        place = tmp_path / name
        place.mkdir()
        assert choose.choose("cuda", driver=driver(place, model)).name == name


def test_a_card_that_no_file_describes_is_told_by_its_name(nodes: set[str], tmp_path: Path) -> None:
    nodes.add("/dev/nvidia[0-9]*")
    with pytest.raises(UsageError) as caught:
        choose.choose("cuda", driver=driver(tmp_path, "NVIDIA H20"))
    assert "NVIDIA H20, which no target file describes" in caught.value.message
    assert "nvidia-h200" in caught.value.hint


def test_cards_of_two_kinds_must_be_named(nodes: set[str], tmp_path: Path) -> None:
    nodes.add("/dev/nvidia[0-9]*")
    with pytest.raises(UsageError, match=r"any of nvidia-b200, nvidia-l40s"):
        choose.choose("cuda", driver=driver(tmp_path, "NVIDIA B200", "NVIDIA L40S"))


def test_nothing_is_called_missing_where_the_files_name_nothing(nodes: set[str]) -> None:
    with pytest.raises(UsageError, match=r"any of intel-max, kunlunxin\n"):
        choose.choose("xpu")


def test_a_render_node_alone_is_no_amd_card(nodes: set[str]) -> None:
    target = targets.load("amd-mi300x")
    nodes.add("/dev/dri/renderD*")
    assert not choose.is_here(target)
    nodes.add("/dev/kfd")
    assert choose.is_here(target)


def test_how_far_a_target_can_be_used_without_its_device(nodes: set[str]) -> None:
    assert choose.use_of(targets.load("cpu")) == "ready"
    assert choose.use_of(targets.load("nvidia-h200")) == "toolchain"
    assert choose.use_of(targets.load("metax")) == "description only"
    assert choose.use_of(targets.load("intel-max")) == "offline", "recorded nowhere in a test"
    assert choose.use_of(targets.load("ascend-950")) == "offline"

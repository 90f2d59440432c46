"""Which cards a target finds, what a confined process is given of one, and that it gets nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import resources, targets
from kernelsmith.devices import cards
from kernelsmith.errors import UsageError
from kernelsmith.targets import Access, Target, schema
from tests.sandbox.zygotes import SMALL, ask, light_zygote

CPU = targets.load("cpu")


def target(**access: object) -> Target:
    """A device whose cards are plain device nodes that every Linux has."""
    given = {"access": Access.model_validate(access), "torch_device": "card", "visible_devices": "CARD_VISIBLE"}
    return CPU.model_copy(update=given)


def test_cards_are_the_nodes_that_match_and_that_the_user_chose() -> None:
    two = target(cards="/dev/[fz][ue][lr][lo]")
    found = {"/dev/full", "/dev/zero"}
    assert {card.node for card in cards.cards(two, {})} == found
    assert [card.name for card in cards.cards(two, {})] == ["card:0", "card:1"]
    assert [card.name for card in cards.cards(two, {"CARD_VISIBLE": "1"})] == ["card:1"]
    for none in ("7", "", "-1", "-1,0"):
        assert cards.cards(two, {"CARD_VISIBLE": none}) == (), "what a scheduler keeps for others is not used"
    for unclear in ("GPU-8a6f", "MIG-8a6f", "all"):
        with pytest.raises(UsageError, match=unclear):
            cards.cards(two, {"CARD_VISIBLE": unclear})


def test_the_driver_says_which_card_is_meant(tmp_path: Path) -> None:
    """Its order on the bus is another one than that of its nodes."""
    for bus, minor, uuid in (("0000:1b:00.0", 5, "GPU-full"), ("0000:04:00.0", 7, "GPU-zero")):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(f"Model: \t x\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    for minor in (5, 7):
        (nodes / f"card{minor}").touch()
    two = target(cards="/dev/null").model_copy(update={"query": "nvidia-smi"})
    two = two.model_copy(update={"access": Access.model_construct(cards=f"{nodes}/card*", environment=(), nodes=())})
    first, second = cards.cards(two, {}, tmp_path)
    assert [first.node, first.uuid, second.uuid] == [f"{nodes}/card7", "GPU-zero", "GPU-full"]
    assert cards.cards(two, {"CARD_VISIBLE": "GPU-f"}, tmp_path) == (second,)
    assert cards.cards(two, {"CARD_VISIBLE": "1,0"}, tmp_path) == (first, second)
    host = cards.host_variables(two, second)
    assert (host["CARD_VISIBLE"], host["CUDA_DEVICE_ORDER"]) == ("GPU-full", "PCI_BUS_ID")


def test_a_variable_that_names_a_home_opens_nothing(tmp_path: Path) -> None:
    names = ["HOME", "KUBECONFIG", "CUDA_PATH", "CARD_ARCH"]
    one = target(cards="/dev/zer[o]", environment=names)
    home = {"HOME": str(tmp_path), "KUBECONFIG": "/opt/../root/.kube/config", "CUDA_PATH": f"/usr:{tmp_path}"}
    chosen = {**home, "CARD_ARCH": "9.0"}
    assert cards.readable(one, cards.present(one)[0], chosen) == ("/dev/zero",)
    assert cards.variables(one, chosen).keys() & set(names) == {"CARD_ARCH"}
    assert cards.withheld(one, chosen) == tuple(home)


def test_the_cpu_is_one_card_and_an_absent_device_says_which_file_is_missing() -> None:
    assert cards.present(CPU) == (cards.Card("cpu", 0, None),)
    assert cards.readable(CPU, cards.present(CPU)[0]) == ()
    with pytest.raises(UsageError, match="/dev/no-such-card"):
        cards.present(target(cards="/dev/no-such-card*"))


def test_a_child_gets_the_node_of_its_card_and_not_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_HARMLESS", ("/usr/", f"{tmp_path}/"))
    one = target(cards="/dev/zer[o]", folders=["/usr/share/zoneinfo"], environment=["CARD_HOME"])
    card = cards.present(one)[0]
    home = tmp_path / "toolkit"
    home.mkdir()
    chosen = {"CARD_HOME": str(home), "CARD_VISIBLE": "0"}
    assert cards.readable(one, card, chosen) == ("/dev/zero", "/usr/share/zoneinfo", str(home))
    variables = cards.variables(one, chosen)
    assert variables["CARD_HOME"] == str(home) and variables["CARD_VISIBLE"] == "0"
    paths = ["/dev/zero", str(home), "/dev/fuse", "/dev/mem"]
    given = light_zygote(readable=cards.readable(one, card, chosen), environment=variables)
    with given as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        assert [ask(child, "opens", path=path) is True for path in paths] == [True, True, False, False]
    with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        assert not any(ask(child, "opens", path=path) is True for path in paths)


def test_the_h200_asks_for_its_driver_and_for_one_card() -> None:
    h200 = targets.load("nvidia-h200")
    assert h200.access.cards is not None and "nvidia[0-9]" in h200.access.cards
    assert cards.variables(h200, {"CUDA_HOME": "/opt/cuda", "HOME": "/root"}) == {
        "CUDA_HOME": "/opt/cuda",
        "CUDA_VISIBLE_DEVICES": "0",
        "KERNELSMITH_DEVICE_MODULE": "kernelsmith.devices.generic",
        "KERNELSMITH_TORCH_DEVICE": "cuda",
        "KERNELSMITH_TRITON_TARGET": "cuda:90:32",
    }


def test_only_baselines_are_told_not_to_fall_back_to_the_cpu() -> None:
    """A candidate's process is told nothing of it: there, what torch computes on the CPU is in no plan."""
    ascend = targets.load("ascend-910b3")
    host = cards.host_variables(ascend, cards.Card("npu:0", 0, "/dev/davinci0"))
    assert host["TORCH_NPU_FALLBACK_CPU_DISABLE"] == "1" and host["KERNELSMITH_TORCH_PLUGIN"] == "torch_npu"
    assert "TORCH_NPU_FALLBACK_CPU_DISABLE" not in cards.variables(ascend, {})


@pytest.mark.parametrize("line", ['LD_PRELOAD = "1"', 'TORCH_X = "/tmp/x.so"'])
def test_a_target_file_cannot_set_just_any_variable(tmp_path: Path, line: str) -> None:
    text = resources.read("targets", "cpu.toml").replace("[triton]", f"[no_fallback]\n{line}\n\n[triton]")
    (tmp_path / "cpu.toml").write_text(text)
    with pytest.raises(UsageError, match="no_fallback"):
        targets.load("cpu", tmp_path)


@pytest.mark.parametrize(
    ("access", "word"),
    [
        ('cards = "/etc/*"', "access.cards"),
        ('nodes = ["/dev/../etc/shadow"]', "is no device node"),
        ('folders = ["/root/.ssh"]', "is not let through"),
        ('folders = ["/usr/../root"]', "is not let through"),
        ('folders = ["/opt/**"]', "is not let through"),
        ('environment = ["OPENAI_API_KEY"]', "is not passed on"),
        ('environment = ["SESSION_COOKIE"]', "is not passed on"),
        ('environment = ["A B"]', "is not passed on"),
    ],
)
def test_a_target_file_cannot_open_the_machine(tmp_path: Path, access: str, word: str) -> None:
    text = resources.read("targets", "cpu.toml").replace("[triton]", f"[access]\n{access}\n\n[triton]")
    (tmp_path / "cpu.toml").write_text(text)
    with pytest.raises(UsageError, match=word):
        targets.load("cpu", tmp_path)

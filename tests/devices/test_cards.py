"""Which cards a target finds, what a confined process is given of one, and that it gets nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import resources, targets
from kernelsmith.devices import cards
from kernelsmith.errors import UsageError
from kernelsmith.targets import Access, Target
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
    assert len(cards.cards(two, {"CARD_VISIBLE": "GPU-8a6f"})) == 2, (
        "a name that is no number cannot be told apart here"
    )
    assert cards.cards(two, {"CARD_VISIBLE": "7"}) == ()


def test_the_cpu_is_one_card_and_an_absent_device_says_which_file_is_missing() -> None:
    assert cards.present(CPU) == (cards.Card("cpu", 0, None),)
    assert cards.readable(CPU, cards.present(CPU)[0]) == ()
    with pytest.raises(UsageError, match="/dev/no-such-card"):
        cards.present(target(cards="/dev/no-such-card*"))


def test_a_child_gets_the_node_of_its_card_and_not_the_others(tmp_path: Path) -> None:
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
        assert ask(child, "opens", paths=paths) == [True, True, False, False]
    with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        assert ask(child, "opens", paths=paths) == [False, False, False, False]


def test_the_h200_asks_for_its_driver_and_for_one_card() -> None:
    h200 = targets.load("nvidia-h200")
    assert h200.access.cards is not None and "nvidia[0-9]" in h200.access.cards
    assert cards.variables(h200, {"CUDA_HOME": "/opt/cuda", "HOME": "/root"}) == {
        "CUDA_HOME": "/opt/cuda",
        "CUDA_VISIBLE_DEVICES": "0",
        "KERNELSMITH_DEVICE_MODULE": "kernelsmith.devices.gpu",
        "KERNELSMITH_TRITON_TARGET": "cuda:90:32",
    }


@pytest.mark.parametrize(
    ("access", "word"),
    [
        ('cards = "/etc/*"', "access.cards"),
        ('nodes = ["/dev/../etc/shadow"]', "is no device node"),
        ('folders = ["/root/.ssh"]', "is not let through"),
        ('folders = ["/usr/../root"]', "is not let through"),
        ('environment = ["OPENAI_API_KEY"]', "is not passed on"),
        ('environment = ["A B"]', "is not passed on"),
    ],
)
def test_a_target_file_cannot_open_the_machine(tmp_path: Path, access: str, word: str) -> None:
    text = resources.read("targets", "cpu.toml").replace("[triton]", f"[access]\n{access}\n\n[triton]")
    (tmp_path / "cpu.toml").write_text(text)
    with pytest.raises(UsageError, match=word):
        targets.load("cpu", tmp_path)

"""`--without-device`: for which targets it is an answer."""

from __future__ import annotations

import pytest

from kernelsmith.config import Settings
from kernelsmith.errors import UsageError
from kernelsmith.session import absent


def test_a_device_that_the_triton_at_hand_compiles_for() -> None:
    assert absent("nvidia-h100", Settings()).name == "nvidia-h100"


@pytest.mark.parametrize(
    ("device", "settings", "says"),
    [
        ("cpu", Settings(), "the processor is always here"),
        ("cambricon", Settings(), "description only: no compiler for cambricon is known"),
        ("nvidia-h100", Settings(goal=1.5), "--goal 1.5 with --without-device: nothing is measured"),
        ("npu", Settings(), "can be any of ascend-910b1"),
    ],
)
def test_what_it_is_no_answer_for(device: str, settings: Settings, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        absent(device, settings)
    assert says in caught.value.message and caught.value.hint


def test_a_toolchain_that_is_not_installed_is_named() -> None:
    with pytest.raises(UsageError, match="`kernelsmith targets install ascend-910b3` does it"):
        absent("ascend-910b3", Settings())

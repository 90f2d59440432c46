"""What kernels are given in place of the host function's own memory, in every form in which it reaches a launch."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
import triton
from pydantic import ValidationError
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelsmith.sandbox.record.elsewhere import Elsewhere
from kernelsmith.sandbox.wire.arguments import Arguments, Region
from kernelsmith.sandbox.wire.messages import Call, Called
from tests.sandbox.players import SCALE, Candidate, Packed, loaded, read_outputs


class Pair(NamedTuple):
    a: object
    b: object


def test_every_form_of_an_argument_is_moved_and_nothing_else() -> None:
    here, there, other = (torch.arange(256, dtype=torch.uint8) + n for n in range(3))
    moved = Elsewhere([(here, there)]).of
    view = here.view(torch.int32).as_strided((4, 2), (8, 1), 3)
    double = moved(view)
    assert double.data_ptr() - there.data_ptr() == view.data_ptr() - here.data_ptr()
    assert (double.shape, double.stride(), double.dtype) == (view.shape, view.stride(), view.dtype)
    assert moved(other) is other
    tensor, (inner, number) = moved(Pair(view, [other, here.data_ptr() + 5]))
    assert (tensor.data_ptr(), inner, number) == (double.data_ptr(), other, there.data_ptr() + 5)
    described = TensorDescriptor(here.view(torch.float32), [8, 8], [8, 1], [4, 8])
    assert moved(described).base.data_ptr() == there.data_ptr()
    assert described.base.data_ptr() == here.data_ptr()
    assert moved(triton.reinterpret(view, triton.language.float32)).data_ptr() == double.data_ptr()
    assert [moved(v) for v in (True, 2.0, None, "x", here.data_ptr() - 1)] == [
        True,
        2.0,
        None,
        "x",
        here.data_ptr() - 1,
    ]


def test_a_call_whose_kernels_work_elsewhere(candidate: Candidate) -> None:
    """Kernels and what is returned of moved memory are there; the host function's own tensors stay as they are."""
    loaded(candidate, SCALE + "def op(x):\n    scaled(x, x, 3.0)\n    return x[1:], x.sum()[None]\n")
    packed = Packed((torch.ones(16), torch.full((16,), 5.0)))
    here, there = packed.regions
    arguments = Arguments(regions=(here,), positional=packed.arguments.positional[:1])
    call = Call(arguments=arguments, record=False, elsewhere=(there,))
    reply = candidate.ask(call, (packed.arena.fd, candidate.out.fd))
    assert isinstance(reply, Called), reply
    returned, total = read_outputs(candidate.out, reply.outputs)
    assert (returned.tolist(), total.item()) == ([15.0] * 15, 16.0)
    assert (packed.tensor(0).tolist(), packed.tensor(1).tolist()) == ([1.0] * 16, [15.0] * 16)
    idle = candidate.ask(call.model_copy(update={"launch": False}), (packed.arena.fd, candidate.out.fd))
    assert isinstance(idle, Called)
    assert [launched.kernel for launched in idle.launches] == ["scale"]
    assert packed.tensor(1).tolist() == [15.0] * 16


@pytest.mark.parametrize(
    "change",
    [
        {"record": True},
        {"record": True, "elsewhere": (), "launch": False},
        {"elsewhere": (Region(offset=64, nbytes=32), None)},
        {"elsewhere": (Region(offset=64, nbytes=16),)},
    ],
)
def test_doubles_fit_their_regions_and_are_never_recorded(change: dict[str, object]) -> None:
    good = {
        "arguments": Arguments(regions=(Region(offset=0, nbytes=32),)),
        "record": False,
        "elsewhere": (Region(offset=64, nbytes=32),),
    }
    Call(**good)
    with pytest.raises(ValidationError):
        Call(**(good | change))

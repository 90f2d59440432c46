"""Messages between judge and children: they survive the wire, and what is not one of them is refused."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from pydantic import ValidationError

from kernelsmith.faults import Fault, FaultKind
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Copy, Fill, InputBuffer, LaunchPlan, ScratchBuffer, StateBuffer, View
from kernelsmith.sandbox.wire.arguments import (
    ALIGNMENT,
    Arguments,
    BoolValue,
    DtypeValue,
    FloatValue,
    IntegerValue,
    ListValue,
    Named,
    NoneValue,
    Region,
    TensorValue,
    TextValue,
    pack,
)
from kernelsmith.sandbox.wire.messages import (
    MAX_FAULTS,
    Call,
    Called,
    Examined,
    Failed,
    Load,
    OutputTensor,
    Prepare,
    Replayed,
    Sample,
    Structure,
    state_regions,
)
from kernelsmith.sandbox.wire.reading import candidate_reply, candidate_request, launcher_reply, launcher_request

X = View(buffer=0, dtype="float32", shape=(4, 2), strides=(2, 1))
PLAN = LaunchPlan(
    buffers=(
        InputBuffer(index=0, nbytes=32),
        ScratchBuffer(nbytes=32),
        StateBuffer(index=1, nbytes=5, content="b"),
        StateBuffer(index=0, nbytes=100, content="a"),
    ),
    kernels=(),
    steps=(Fill(out=X, value="nan"), Copy(out=X.model_copy(update={"buffer": 1}), source=X)),
    outputs=(X.model_copy(update={"buffer": 1}),),
)


def test_every_kind_of_argument_survives_the_wire() -> None:
    call = Call(
        arguments=Arguments(
            regions=(Region(offset=64, nbytes=32),),
            positional=(
                TensorValue(view=X),
                ListValue(items=(IntegerValue(value=-(2**70)), ListValue(items=(NoneValue(),), is_tuple=True))),
                FloatValue(text="nan"),
                TextValue(value="sum"),
                DtypeValue(name="bfloat16"),
            ),
            keywords=(Named(name="causal", value=BoolValue(value=True)),),
        )
    )
    assert candidate_request(call.model_dump_json().encode()) == call


def test_a_plan_survives_the_wire_in_both_directions() -> None:
    called = Called(plan=PLAN, structure=Structure(kind="tensor"), outputs=())
    assert candidate_reply(called.model_dump_json().encode()) == called
    assert launcher_request(Prepare(plan=PLAN).model_dump_json().encode()) == Prepare(plan=PLAN)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "json"),
        (b"\xff\xfe", "json"),
        (b"[]", "object"),
        (b'{"kind": "called"}', "plan"),
        (b'{"kind": "sampled"}', "kind"),  # a launcher's word in a candidate's mouth
        (b'{"kind": "failed", "outcome": "passed?", "message": ""}', "outcome"),
        (b'{"kind": "failed", "outcome": "crashed", "message": "", "extra": 1}', "extra"),
        (b'{"kind": "repeated", "n": 1}', "n"),
    ],
)
def test_a_reply_that_is_none_is_refused(payload: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        candidate_reply(payload)


def test_a_failure_cannot_claim_to_have_passed_nor_paint_the_terminal() -> None:
    with pytest.raises(ValidationError, match="passed"):
        candidate_reply(b'{"kind": "failed", "outcome": "passed", "message": "all is well"}')
    reply = candidate_reply(b'{"kind": "failed", "outcome": "crashed", "message": "\\u001b[2Jgone\\n", "trace": ""}')
    assert isinstance(reply, Failed)
    assert reply.message == "gone\n"
    with pytest.raises(ValueError, match="says why"):
        candidate_reply(b'{"kind": "failed", "outcome": "crashed", "message": "\\u001b[2J"}')


def test_numbers_are_not_taken_from_text() -> None:
    text = json.dumps({"kind": "replayed", "outputs": [], "state_intact": "true"})
    with pytest.raises(ValidationError):
        launcher_reply(text.encode())


@pytest.mark.parametrize(
    "change",
    [{"offset": 3}, {"offset": -64}, {"strides": (2,)}, {"dtype": "object"}, {"shape": (2**62, 2)}, {"shape": (-1, 2)}],
)
def test_an_output_out_of_bounds_is_refused(change: dict[str, Any]) -> None:
    good = {"dtype": "float32", "shape": (4, 2), "strides": (2, 1), "offset": 64}
    OutputTensor.model_validate(good)
    with pytest.raises(ValidationError):
        OutputTensor.model_validate(good | change)


def test_a_tensor_must_lie_in_its_region() -> None:
    with pytest.raises(ValidationError, match="outside of region 0"):
        Arguments(regions=(Region(offset=0, nbytes=31),), positional=(TensorValue(view=X),))
    with pytest.raises(ValidationError, match="outside of region 0"):
        Arguments(positional=(ListValue(items=(TensorValue(view=X),)),))


def test_requests_are_bounded() -> None:
    with pytest.raises(ValidationError):
        Load(source="x" * (5 << 20), entry="op")
    with pytest.raises(ValidationError):
        Sample(plan_id=0, inputs=(), flush_bytes=1 << 40)


def test_regions_are_aligned_and_apart() -> None:
    regions = pack([1, 0, 100, 64])
    assert all(r.offset % ALIGNMENT == 0 for r in regions)
    assert all(a.offset + a.nbytes <= b.offset for a, b in itertools.pairwise(regions))
    assert [r.nbytes for r in state_regions(PLAN)] == [100, 5]


def test_mutated_replies_are_parsed_or_refused_and_nothing_else() -> None:
    """Random damage to honest replies: the readers raise ValueError or give back a valid object."""
    rng = random.Random(1)
    called = Called(plan=PLAN, structure=Structure(kind="tuple"), outputs=())
    replayed = Replayed(outputs=(), state_intact=True)
    failed = Failed(outcome=Outcome.NOT_IN_PLAN, message="host code")
    refused = 0
    for reply in (called, replayed, failed):
        text = bytearray(reply.model_dump_json().encode())
        reader = launcher_reply if reply is replayed else candidate_reply
        for _ in range(400):
            damaged = bytearray(text)
            for _ in range(rng.randint(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.choice(b'0123456789-"{}[],:.ex ')
            try:
                reader(bytes(damaged))
            except ValueError:
                refused += 1
    assert refused > 600


def test_faults_survive_the_wire_within_bounds() -> None:
    fault = Fault(
        FaultKind.RACE, kernel="k", location="f.py:3", expression="x", program=(1, 2, 0), lane=(3, 4), other=(0, 0, 0)
    )
    reply = Examined(faults=(fault,))
    assert launcher_reply(reply.model_dump_json().encode()) == reply
    told = json.loads(reply.model_dump_json())
    assert told["faults"][0]["kind"] == "race"

    def with_fault(**changes: object) -> bytes:
        return json.dumps(told | {"faults": [told["faults"][0] | changes]}).encode()

    shown = launcher_reply(with_fault(expression="x\u001b[31m = 1"))
    assert isinstance(shown, Examined) and shown.faults[0].expression == "x = 1"
    wrong = [{"kind": "boredom"}, {"lane": [0] * 99}, {"program": [0]}, {"detail": "x" * (1 << 20)}, {"more": 1}]
    for changes in wrong:
        with pytest.raises(ValidationError):
            launcher_reply(with_fault(**changes))
    with pytest.raises(ValidationError):
        launcher_reply(json.dumps(told | {"faults": told["faults"] * (MAX_FAULTS + 1)}).encode())

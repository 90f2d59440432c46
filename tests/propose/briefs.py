"""Small briefs and requests for the tests of this folder."""

from __future__ import annotations

from kernelsmith.model import OperatorInfo
from kernelsmith.proposal import Brief, Prompt, TargetFacts
from kernelsmith.propose import Request

SOFTMAX = OperatorInfo(
    name="softmax",
    kind="native",
    path="softmax.py",
    digest="0",
    source="def softmax(x): return torch.softmax(x, -1)\n",
    doc="Row softmax.",
    signature="softmax(x)",
)
CPU = TargetFacts(name="cpu", device="cpu", summary="the host's processor")
PROMPT = Prompt(system="You write kernels.", user="Write softmax.")


def request(*, trial: int = 1, seconds: float = 20.0, max_output_tokens: int | None = None) -> Request:
    brief = Brief(operator=SOFTMAX, target=CPU, trial=trial)
    return Request(brief=brief, prompt=PROMPT, seconds=seconds, max_output_tokens=max_output_tokens)

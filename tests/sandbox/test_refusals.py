"""What a host function may not do, and how it is told; every failure of a candidate is an outcome with its line."""

from __future__ import annotations

import pytest
import torch

from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.wire.messages import Failed
from tests.sandbox.players import SCALE, Candidate, Packed, kinds, loaded


def failure(candidate: Candidate, body: str, *values: object) -> Failed:
    """The reply to a call of `op`, whose last lines are `body`; the first of them is line 12."""
    loaded(candidate, SCALE + body)
    reply = candidate.call(Packed(values or (torch.randn(100),)))
    assert isinstance(reply, Failed), reply
    return reply


def test_a_decoy_beside_the_work_of_torch_is_named_with_its_line(candidate: Candidate) -> None:
    body = "def op(x):\n    scaled(x, torch.empty_like(x), 2.0)\n    y = x.exp()\n    return y / y.sum()\n"
    failed = failure(candidate, body)
    assert failed.outcome is Outcome.NOT_IN_PLAN
    assert failed.line == 13
    assert failed.message == (
        "host code computes with aten.exp at line 13; computes with aten.sum, aten.div at line 14. "
        "Do this work in a Triton kernel: host code may only allocate, fill, copy, cast and view tensors"
    )


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("def op(x):\n    return x.add_(1)\n", "aten.add_"),
        ("def op(x):\n    return torch.add(x, 1, out=torch.empty_like(x))\n", "aten.add"),
        ("def op(x):\n    return torch.cat([x], out=torch.empty_like(x))\n", "aten.cat"),
        ("def op(x):\n    return torch.rand(3)\n", "aten.rand"),
        ("def op(x):\n    return x[torch.tensor([0, 1])]\n", "aten.index"),
        ("def op(x):\n    return torch.from_numpy(x.numpy().repeat(20))\n", "8000 bytes from Python or NumPy"),
        ("def op(x):\n    try:\n        return x.exp()\n    except Exception:\n        return x\n", "aten.exp"),
    ],
)
def test_what_computes_is_refused(candidate: Candidate, body: str, names: str) -> None:
    failed = failure(candidate, body)
    assert failed.outcome is Outcome.NOT_IN_PLAN
    assert names in failed.message


def test_a_library_operator_with_unseen_steps_is_refused(candidate: Candidate) -> None:
    body = """
lib = torch.library.Library("hidden", "FRAGMENT")
lib.define("f(Tensor x) -> Tensor")
lib.impl("f", lambda x: x.exp(), "CPU")
def op(x):
    return torch.ops.hidden.f(x)
"""
    assert "hidden::f" in failure(candidate, body).message


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("x.as_subclass(type('Lazy', (torch.Tensor,), {}))", "returns a Lazy"),
        ("torch.nn.Parameter(x)", "returns a Parameter where a tensor is expected; that is not a plain torch.Tensor"),
        ("x.clone().requires_grad_()", "returns a tensor that requires grad"),
        ("{'y': x}", "returns a dict"),
        ("(x, 1.0)", "returns a float"),
    ],
)
def test_only_plain_tensors_are_returned(candidate: Candidate, value: str, says: str) -> None:
    failed = failure(candidate, f"def op(x):\n    return {value}\n")
    assert failed.outcome is Outcome.WRONG_DTYPE
    assert says in failed.message


@pytest.mark.parametrize(
    ("body", "outcome", "says", "line"),
    [
        ("def op(x):\n    raise KeyError('odd')\n", Outcome.RUNTIME_ERROR, "KeyError: 'odd'", 12),
        ("def op(x):\n    raise SystemExit(3)\n", Outcome.RUNTIME_ERROR, "ends the process", 12),
        ("def op(x):\n    raise KeyboardInterrupt\n", Outcome.RUNTIME_ERROR, "KeyboardInterrupt", 12),
        ("def op(x):\n    return op(x)\n", Outcome.RUNTIME_ERROR, "RecursionError", 12),
        (
            "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit\ndef op(x):\n    raise Odd\n",
            Outcome.RUNTIME_ERROR,
            "raises another one when it is shown",
            None,
        ),
        (
            "def op(x):\n    raise SyntaxError('odd', ('f', 'no number', 1, ''))\n",
            Outcome.RUNTIME_ERROR,
            "when it is shown",
            None,
        ),
        ("def op(x, y):\n    return x\n", Outcome.RUNTIME_ERROR, "missing 1 required", None),
    ],
)
def test_exceptions_are_outcomes(
    candidate: Candidate, body: str, outcome: Outcome, says: str, line: int | None
) -> None:
    failed = failure(candidate, body)
    assert (failed.outcome, failed.line) == (outcome, line)
    assert says in failed.message


def test_a_kernel_that_cannot_be_compiled_says_where(candidate: Candidate) -> None:
    source = """
@triton.jit
def inner(a):
    return a + undefined_name

@triton.jit
def k(x):
    tl.store(x, inner(1.0))

def op(x):
    k[(1,)](x)
"""
    loaded(candidate, source)
    failed = candidate.call(Packed((torch.randn(4),)))
    assert isinstance(failed, Failed)
    assert failed.outcome is Outcome.COMPILE_ERROR
    assert "undefined_name" in failed.message
    assert failed.line == 5


@pytest.mark.parametrize(
    ("source", "outcome", "line"),
    [
        ("def op(x:\n", Outcome.COMPILE_ERROR, 2),
        ("def other(x): pass\n", Outcome.NO_CODE, None),
        ("\nraise ValueError('at import')\n", Outcome.RUNTIME_ERROR, 3),
        ("raise SystemExit\n", Outcome.RUNTIME_ERROR, 2),
    ],
)
def test_a_module_that_does_not_load(candidate: Candidate, source: str, outcome: Outcome, line: int | None) -> None:
    failed = candidate.load(source)
    assert isinstance(failed, Failed)
    assert (failed.outcome, failed.line) == (outcome, line)


def test_a_call_after_a_failed_one_is_recorded_afresh(candidate: Candidate) -> None:
    loaded(
        candidate,
        SCALE + "def op(x):\n    return x.exp() if x[0].item() > 0 else scaled(x, torch.empty_like(x), 2.0)\n",
    )
    x = torch.ones(4)
    assert isinstance(candidate.call(Packed((x,))), Failed)
    plan, outputs = candidate.called(Packed((-x,)))
    torch.testing.assert_close(outputs, [x * -2])
    assert kinds(plan) == ["launch"]

"""Kernels of a recorded call as other devices' front ends make them."""

from __future__ import annotations

import torch

from kernelsmith.compiled import Chip
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Kernel
from kernelsmith.sandbox.wire.messages import Failed, Lower, Lowered
from tests.sandbox.players import Candidate, Packed, loaded

HOPPER, AMPERE = (Chip(backend="cuda", arch=arch, warp_size=32) for arch in (90, 80))
XE_HPC = Chip(backend="xpu", arch="pvc", warp_size=32)
CDNA3, CDNA4 = (Chip(backend="hip", arch=arch, warp_size=64) for arch in ("gfx942", "gfx950"))
SOURCE = """
from triton.language.extra import libdevice
from triton.language.target_info import is_hip

@triton.jit
def mix(x, y, B: tl.constexpr):
    r = tl.arange(0, B)
    at = r[:, None] * B + r[None, :]
    a = tl.load(x + at)
    out = libdevice.erf(tl.dot(a, a))
    if is_hip():
        out += 1.0
    tl.store(y + at, out)

@triton.jit
def fp8(y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(y + at).to(tl.float8e4nv).to(tl.float32))

def op(x, y):
    mix[(1,)](x, y, B=16, num_warps=2)
    fp8[(1,)](y, B=16)
    return y
"""


def lowered(candidate: Candidate, chip: Chip) -> tuple[Kernel | Failed, ...]:
    reply = candidate.ask(Lower(chip=chip))
    assert isinstance(reply, Lowered), reply
    return reply.kernels


def test_each_target_has_its_own_front_end(candidate: Candidate) -> None:
    loaded(candidate, SOURCE)
    packed = Packed([torch.ones(16, 16), torch.zeros(16, 16)])
    plan, _ = candidate.called(packed)
    hopper, ampere, cdna3, cdna4 = (lowered(candidate, chip) for chip in (HOPPER, AMPERE, CDNA3, CDNA4))
    mixed = [kernels[0] for kernels in (hopper, ampere, cdna3, cdna4)]
    texts = [kernel.ttir for kernel in mixed if isinstance(kernel, Kernel)]
    assert len(texts) == 4
    assert ["inputPrecision = tf32" in text for text in texts] == [True, True, True, False]
    assert ["__nv_erff" in text for text in texts] == [True, True, False, False]
    assert ["__ocml_erf_f32" in text for text in texts] == [False, False, True, True]
    assert ["tt.pointer_range = 32" in text for text in texts] == [False, False, True, True]
    assert all(text.count("tt.divisibility = 16") == 2 for text in texts)
    added = [text.count("arith.addf") for text in texts]
    assert added == [added[0], added[0], added[0] + 1, added[0] + 1]
    for kernel in mixed:
        assert isinstance(kernel, Kernel)
        assert kernel.options == {"num_warps": 2}  # num_stages is the target's own: nobody named it
        assert kernel.signature == plan.kernels[0].signature
    assert isinstance(hopper[1], Kernel)
    refused = ampere[1]
    assert isinstance(refused, Failed)
    assert refused.outcome is Outcome.COMPILE_ERROR
    assert "fp8e4nv" in refused.message
    assert refused.line == 1 + 1 + SOURCE[: SOURCE.index("tl.float8e4nv")].count("\n")


def test_intels_front_end_without_intels_triton(candidate: Candidate) -> None:
    loaded(candidate, SOURCE)
    candidate.called(Packed([torch.ones(16, 16), torch.zeros(16, 16)]))
    mixed, float8 = lowered(candidate, XE_HPC)
    assert isinstance(mixed, Kernel) and isinstance(float8, Kernel)
    assert "inputPrecision = tf32" in mixed.ttir and "__nv_erff" in mixed.ttir
    assert mixed.options == {"num_warps": 2}


def test_a_dot_below_the_least_of_intels_matrix_unit(candidate: Candidate) -> None:
    loaded(candidate, SOURCE.replace("B=16", "B=8"))
    candidate.called(Packed([torch.ones(8, 8), torch.zeros(8, 8)]))
    refused = lowered(candidate, XE_HPC)[0]
    assert isinstance(refused, Failed) and refused.outcome is Outcome.COMPILE_ERROR
    assert "N >= 16" in refused.message


def test_an_option_that_a_chip_does_not_have_is_a_fault_of_compiling(candidate: Candidate) -> None:
    loaded(candidate, SOURCE.replace("num_warps=2", "num_warps=2, num_ctas=2"))
    candidate.called(Packed([torch.ones(16, 16), torch.zeros(16, 16)]))
    refused = lowered(candidate, CDNA3)[0]
    assert isinstance(refused, Failed) and refused.outcome is Outcome.COMPILE_ERROR
    assert "num_ctas > 1 not supported" in refused.message


def test_the_kernel_still_runs_afterwards(candidate: Candidate) -> None:
    loaded(candidate, SOURCE)
    packed = Packed([torch.ones(16, 16), torch.zeros(16, 16)])
    first, _ = candidate.called(packed)
    lowered(candidate, CDNA3)
    packed.refill()
    again, _ = candidate.called(packed)
    assert again.canonical() == first.canonical()

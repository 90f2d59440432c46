"""What kernels print, in the GPU's own format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.emit.messages import c_string, unescape


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@triton.jit
def print_rows(x, count, B: tl.constexpr):
    index = tl.arange(0, B)
    tl.device_print("100%", tl.load(x + tl.program_id(1) * B + index))
    if tl.program_id(1) == 0:
        tl.device_print("count", count, index.to(tl.uint8) + 250)
        tl.device_print("nothing")


def test_lines_name_the_program_the_index_and_the_operand(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([0.5, -0.0, float("inf"), float("nan")] * 64, dtype=torch.float16)
    print_rows[(1, 64)](x, -3, B=4)
    written = Counter(capfd.readouterr().out.splitlines())
    expected = Counter(
        f"pid (0, {row}, 0) idx ({i}) 100%: {text}"
        for row in range(64)
        for i, text in enumerate(["0.500000", "-0.000000", "inf", "nan"])
    )
    expected["pid (0, 0, 0) idx () count: (operand 0) -3"] = 1
    expected.update(f"pid (0, 0, 0) idx ({i}) count: (operand 1) {(i + 250) % 256}" for i in range(4))
    expected["pid (0, 0, 0) nothing"] = 1
    assert written == expected


@triton.jit
def print_forms(x, B: tl.constexpr):
    index = tl.arange(0, B)[:, None] * 2 + tl.arange(0, 2)[None, :]
    y = tl.load(x + index)
    tl.device_print("hex", y, hex=True)
    tl.device_print("y", y)
    tl.device_print("positive", y > 0)
    tl.device_print("at", x)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64, torch.uint64, torch.bfloat16], ids=str)
def test_values_have_their_sign_and_their_bits(dtype: torch.dtype, capfd: pytest.CaptureFixture[str]) -> None:
    x = (torch.arange(-1, 31).to(torch.int8) if dtype.itemsize == 1 else torch.arange(-1, 31)).to(dtype)
    print_forms[(1,)](x, B=16)
    lines = capfd.readouterr().out.splitlines()
    bits = 8 * dtype.itemsize
    first = x.view({8: torch.uint8, 16: torch.uint16, 64: torch.uint64}[bits])[0].item()
    assert lines[0] == f"pid (0, 0, 0) idx ( 0, 0) hex: {first:#0{bits // 4 + 2}x}"
    assert lines[32] == f"pid (0, 0, 0) idx ( 0, 0) y: {'-1.000000' if bits == 16 else x[0].item()}"
    assert lines[32 + 31].startswith("pid (0, 0, 0) idx (15, 1) y: 30")
    unsigned = dtype in (torch.uint8, torch.uint64)
    assert [line[-1] for line in lines[64:67]] == ["1" if unsigned else "0", "0", "1"]
    assert lines[-1] == f"pid (0, 0, 0) idx () at: {x.data_ptr():#x}"


def test_strings_survive_both_languages() -> None:
    assert unescape(r"a \22quoted\22 line\0A\C3\A9 \\") == b'a "quoted" line\n\xc3\xa9 \\'
    assert c_string(b'say "a?"\n') == r'"say \042a\077\042\012"'

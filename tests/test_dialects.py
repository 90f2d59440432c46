"""What may stand in a plan's TTIR: all that Triton prints for kernels, and nothing that reaches beyond them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from kernelsmith.dialects import foreign
from kernelsmith.plan import Kernel

FILES = sorted((Path(__file__).parent / "data").rglob("*.ttir"))
FUNCTION = "module {{\n  tt.func public @k(%x: !tt.ptr<f32>) {{\n{}\n    tt.return\n  }}\n}}\n"
EXTERN = (
    '    %y = tt.extern_elementwise %x {{libname = "{}", libpath = "{}", pure = true, symbol = "{}"}} : (f32) -> f32'
)
ASSEMBLY = '    %y = tt.elementwise_inline_asm "{}" {{constraints = "=r,r", packed_element = 1 : i32}} %x : i32 -> i32'


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_triton_prints_is_at_home(path: Path) -> None:
    assert foreign(path.read_text()) is None


@pytest.mark.parametrize(
    "body",
    [
        EXTERN.format("", "", "__nv_expf"),
        EXTERN.format("libdevice", "", "__ocml_exp_f32"),
        ASSEMBLY.format("{ .reg .b32 t; mul.lo.u32 t, $1, $1; mov.b32 $0, t; }"),
        "    gpu.barrier",
        "    llvm.intr.assume %x : i1",
        '    tt.print " llvm.mlir.global " {hex = false} : %x : f32',
        "    %llvm.x = arith.constant 1.0e+00 : f32  // llvm.mlir.global",
        '    tt.call @"llvm.f"(%x) : (f32) -> ()',
    ],
)
def test_so_are_libraries_of_the_device_and_words_in_strings(body: str) -> None:
    assert foreign(FUNCTION.format(body)) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    llvm.mlir.global internal @g(0 : i32) : i32", "the operation 'llvm.mlir.global'"),
        ('    "llvm.mlir.global"() <{sym_name = "g"}> : () -> ()', "the operation 'llvm.mlir.global'"),
        ('    "llvm.inline_asm"(%x) : (i32) -> ()', "'llvm.inline_asm'"),
        ("    %y = memref.alloc() : memref<4xf32>", "'memref.alloc'"),
        ("    nvvm.cp.async.bulk %x", "'nvvm.cp.async.bulk'"),
        ("    ttg.local_alloc %x", "'ttg.local_alloc'"),
        ("    %y = arith.constant 0 : !llvm.ptr", "a type of !llvm"),
        (EXTERN.format("", "", "vprintf"), "the external function 'vprintf'"),
        (EXTERN.format("", "", "__nv_x y"), "the external function"),
        (EXTERN.format("", "/scratch/mine.bc", "__nv_expf"), "the external library '/scratch/mine.bc'"),
        (ASSEMBLY.format(".global .u32 kept; mov.u32 $0, $1;"), "inline assembly with '.global'"),
        (ASSEMBLY.format("st.global.u32 [$1], 1;"), "'.global'"),
        (ASSEMBLY.format("call f, ($1);"), "'call'"),
    ],
)
def test_what_reaches_further_is_refused_by_name(body: str, says: str) -> None:
    text = FUNCTION.format(body)
    assert says in (foreign(text) or "")
    with pytest.raises(ValidationError, match="a plan may not hold"):
        Kernel(name="k", ttir=text, signature=("*fp32",))


@pytest.mark.parametrize("piece", ['"', '@"', "a.", "a", "//", "!", "0.", "%", "#x ", '\\"', '"('])
def test_forged_text_is_read_in_linear_time(piece: str) -> None:
    def seconds(n: int) -> float:
        begin = time.process_time()
        foreign(piece * (n // len(piece)))
        return time.process_time() - begin

    assert seconds(400_000) < 9 * seconds(100_000) + 0.2

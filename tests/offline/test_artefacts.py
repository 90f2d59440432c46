"""What is counted in disassembly of NVIDIA and assembly of AMD."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

from kernelsmith.offline import amd, nvidia


def test_matrix_instructions_of_nvidia() -> None:
    names = ["HMMA.16816.F32.BF16", "HGMMA.64x64x8.F32.TF32", "UTCHMMA", "IMMA.16832.S8.S8", "FFMA", "QMMA.16832.F32"]
    found = nvidia.matrix_instructions(Counter(names * 2))
    assert found == {"HMMA": 2, "HGMMA": 2, "UTCHMMA": 2, "IMMA": 2, "QMMA": 2}


def test_widths_of_nvidia() -> None:
    counts = Counter(["LDG.E.128", "LDG.E.128.CONSTANT", "LDG.E", "LDG.E.U16", "LDGSTS.E.BYPASS.128", "LDGDEPBAR"])
    assert nvidia.widths(counts, ("LDG", "LDGSTS")) == {2: 1, 4: 1, 16: 3}
    assert nvidia.widths(Counter(["STG.E.64", "STS.128"]), ("STG",)) == {8: 1}


def test_widths_of_amd() -> None:
    loads = ["buffer_load_dwordx4", "global_load_b128", "global_load_dword", "buffer_load_ushort", "global_load_u8"]
    counts = Counter([*loads, "global_load_lds_dwordx4", "buffer_store_dwordx2", "buffer_wbl2"])
    assert amd.widths(counts, "load") == {1: 1, 2: 1, 4: 1, 16: 3}
    assert amd.widths(counts, "store") == {8: 1}


def test_resources_of_amd() -> None:
    text = """
\tv_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
\tbuffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen
amdhsa.kernels:
  - .agpr_count:     16
    .private_segment_fixed_size: 24
    .sgpr_count:     25
    .vgpr_count:     106
    .vgpr_spill_count: 3
"""
    data = SimpleNamespace(num_warps=4, warp_size=64, shared=4096)
    found = amd.read(SimpleNamespace(asm={"amdgcn": text}, metadata=data))
    assert (found.registers, found.scalar_registers, found.spill_bytes, found.stack_bytes) == (106, 25, 12, 24)
    assert (found.threads, found.shared_bytes) == (256, 4096)
    assert found.matrix_instructions == {"v_mfma_f32_32x32x8_f16": 1}
    assert found.loads == {16: 1}

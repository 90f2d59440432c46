from __future__ import annotations

from pathlib import Path

import pytest

from kernelsmith import library
from kernelsmith.errors import UsageError
from kernelsmith.model import OperatorInfo


def operator(name: str, *ops: str) -> OperatorInfo:
    return OperatorInfo(
        name=name, kind="native", path=f"{name}.py", digest="0", source="", doc="", signature="", ops=ops
    )


@pytest.mark.parametrize(
    ("ops", "category"),
    [
        (("aten._softmax",), "rows"),
        (("aten.native_layer_norm",), "rows"),
        (("aten.pow", "aten.mean", "aten.rsqrt"), "rows"),
        (("aten.addmm", "aten.gelu"), "matmul"),
        (("aten.bmm", "aten._softmax", "aten.bmm"), "attention"),
        (("aten.scaled_dot_product_attention",), "attention"),
        (("aten.cumsum",), "scan"),
        (("aten.embedding",), "gather"),
        (("aten.index_add",), "gather"),
        (("aten.convolution",), "conv"),
        (("aten.relu",), "elementwise"),
        (("aten.maximum",), "elementwise"),
    ],
)
def test_the_category_follows_from_the_operators_called(ops: tuple[str, ...], category: str) -> None:
    assert library.categories(operator("op", *ops))[0] == category


def test_a_kernel_of_the_operators_name_comes_first_whatever_its_category() -> None:
    assert library.ranked(operator("softmax", "aten._softmax"))[0].name == "softmax"
    assert library.ranked(operator("selective_scan", "aten.exp", "aten.mul"))[0].name == "selective_scan"


def test_every_shipped_kernel_is_described_and_says_what_it_takes() -> None:
    shipped = library.kernels()
    assert shipped
    for kernel in shipped:
        assert kernel.source.startswith('"""'), kernel.file
        assert "tensor" in kernel.roles, kernel.file
        assert kernel.required <= len(kernel.roles)


def test_a_kernel_file_without_its_host_function_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "kernels" / "rows"
    folder.mkdir(parents=True)
    (folder / "thing.py").write_text("def other(x): ...\n")
    with pytest.raises(UsageError, match="thing"):
        library.kernels(tmp_path)

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelsmith.errors import KernelsmithError
from kernelsmith.export.call import read_call, sizes_code
from kernelsmith.model import ArgumentInfo, DimInfo, OperatorInfo
from tests.export.packages import example


def operator(arguments: tuple[ArgumentInfo, ...], dims: str, **more: Any) -> OperatorInfo:
    names = ", ".join(a.name for a in arguments)
    fields = {"source": f"def op({names}):\n    return {arguments[0].name}\n", "signature": f"def op({names})"} | more
    infos = tuple(DimInfo(name=d, low=1, high=64) for d in dims)
    return OperatorInfo(
        name="op", kind="native", path="op.py", digest="0", doc="", dims=infos, arguments=arguments, **fields
    )


def tensor(name: str, shape: str, **more: Any) -> ArgumentInfo:
    return ArgumentInfo(name=name, kind="tensor", shape=shape, dtypes=("float32",), **more)


def finder(op: OperatorInfo) -> Any:
    names = ", ".join(a.name for a in op.arguments)
    namespace: dict[str, Any] = {}
    exec(f"def dims_of({names}):\n{sizes_code(op)}", namespace)
    return namespace["dims_of"]


def test_sizes_are_found_through_sums_products_and_differences() -> None:
    arguments = (tensor("x", "((2 * N) + 1, M - N)"), tensor("y", "(8 - K,)"))
    dims_of = finder(operator(arguments, "NMK"))
    assert dims_of(torch.empty(7, 2), torch.empty(3)) == {"N": 3, "M": 5, "K": 5}
    assert dims_of(torch.empty(8, 2), torch.empty(3)) is None  # 2 N + 1 is odd
    assert dims_of(torch.empty(7, 2, 1), torch.empty(3)) is None


def test_tensors_that_disagree_are_refused() -> None:
    dims_of = finder(operator((tensor("x", "(M, N)"), tensor("w", "(N,)")), "MN"))
    assert dims_of(torch.empty(2, 3), torch.empty(3)) == {"M": 2, "N": 3}
    assert dims_of(torch.empty(2, 3), torch.empty(4)) is None


def test_a_size_that_no_shape_reveals_cannot_be_guarded() -> None:
    with pytest.raises(KernelsmithError, match="N cannot be found"):
        sizes_code(operator((tensor("x", "(N // 8,)"),), "N"))


def test_relations_optional_arguments_lists_and_scalars_are_checked() -> None:
    arguments = (
        tensor("x", "(M, N)"),
        tensor("b", "(N,)", optional=True),
        ArgumentInfo(name="xs", kind="list", shape="(N,) x G", dtypes=("float32",)),
        ArgumentInfo(name="eps", kind="scalar", values="float from 0.0 to 1.0"),
    )
    dims_of = finder(operator(arguments, "MNG", relations=("(N % 2) == 0", "lambda M, G: M >= G")))
    x, b, xs = torch.empty(3, 4), torch.empty(4), [torch.empty(4)] * 2
    assert dims_of(x, b, xs, 0.5) == {"M": 3, "N": 4, "G": 2}
    assert dims_of(x, None, xs, 0.5) == {"M": 3, "N": 4, "G": 2}
    assert dims_of(x, torch.empty(5), xs, 0.5) is None
    assert dims_of(x, b, [], 0.5) is None
    assert dims_of(x, b, [*xs, torch.empty(5)], 0.5) is None
    assert dims_of(x, b, xs * 2, 0.5) is None  # G = 4 > M
    assert dims_of(x, b, xs, 1.5) is None
    assert dims_of(torch.empty(3, 5), torch.empty(5), [torch.empty(5)], 0.5) is None  # N odd


def test_a_relation_known_by_name_only_is_refused() -> None:
    with pytest.raises(KernelsmithError, match="fits_somehow"):
        sizes_code(operator((tensor("x", "(M,)"),), "M", relations=("fits_somehow",)))


def test_the_schema_follows_the_signature() -> None:
    call = read_call(example("add_rms_norm"))
    assert call.schema == "(Tensor x, Tensor residual, Tensor weight, float eps=1e-05) -> (Tensor, Tensor)"
    assert call.annotation == "tuple[torch.Tensor, torch.Tensor]"


def test_mutated_arguments_are_marked_and_not_returned_twice() -> None:
    call = read_call(operator((tensor("acc", "(N,)"), tensor("x", "(N,)", optional=True)), "N", mutates=("acc",)))
    assert call.schema == "(Tensor(a0!) acc, Tensor? x) -> ()"
    assert call.returned_argument == "acc"


def test_an_operator_that_returns_a_list_has_no_schema() -> None:
    info = operator((tensor("x", "(N,)"),), "N", signature="def op(x) -> list[torch.Tensor]")
    with pytest.raises(KernelsmithError, match="returns a list"):
        read_call(info)

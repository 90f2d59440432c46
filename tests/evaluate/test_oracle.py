"""The oracle on kernels it has never seen: honest ones pass every case, faulty ones fail one, nobody says which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth.compare import Finding, compare, held_otherwise, untouched
from kernelsmith.evaluate.truth.explore import cases, workload_cases
from kernelsmith.evaluate.truth.inputs import CallInputs, Case, materialise
from kernelsmith.evaluate.truth.oracle import truth
from kernelsmith.evaluate.truth.trivial import refuse_trivial
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Level, Outcome
from tests.evaluate import stand_ins as k
from tests.operators.files import made

FLOATS = ("float32", "bfloat16", "float16")
POINT = "M=16, N=64"


@dataclass(frozen=True)
class Subject:
    """An operator, kernels that are right, and kernels that are not."""

    arguments: str
    body: str
    honest: tuple[Callable[..., Any], ...]
    faulty: tuple[Callable[..., Any], ...]
    point: str = POINT
    options: str = ""

    def text(self) -> str:
        names = [part.split("=")[0].strip() for part in self.arguments.split(";")]
        declared = ", ".join(self.arguments.split(";"))
        return (
            f"\n@operator({declared}, {self.options} workloads=[workload({self.point})])\n"
            f"def subject({', '.join(names)}):\n    return {self.body}\n"
        )


X = "x=tensor(M, N, dtypes=FLOATS)"
XW = "x=tensor(M, K, dtypes=FLOATS); w=tensor(K, N, dtypes='same as x')"
QKV = "q=tensor(B, K, N, dtypes=FLOATS); k=tensor(B, L, N, dtypes='same as q'); v=tensor(B, L, N, dtypes='same as q')"
RMS = "(x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)"
SUBJECTS = {
    "sum": Subject(
        "x=tensor(M, N, dtypes=FLOATS, values='any')",
        "x.sum(-1)",
        (k.sum_blocked, k.sum_in_sequence),
        (k.sum_without_last, k.sum_in_float16, k.sum_sampled),
    ),
    "matmul": Subject(
        XW,
        "x @ w",
        (k.matmul_split, k.matmul_in_sequence),
        (k.matmul_float16_accumulator, k.matmul_tf32, lambda x, w: k.matmul_split(x[:, :-1], w[:-1])),
        point="M=16, N=16, K=32",
    ),
    "rms norm": Subject(
        "x=tensor(M, N, dtypes=FLOATS); w=tensor(N, dtypes='same as x')",
        RMS,
        (k.rms_norm_fused, k.rms_norm_rounding_early),
        (k.rms_norm_n_minus_1, k.rms_norm_other_eps),
    ),
    "attention": Subject(
        QKV,
        "F.scaled_dot_product_attention(q, k, v)",
        (k.attention,),
        (k.attention_without_last_key, k.attention_scaled_wrong),
        point="B=2, K=16, N=64, L=32",
    ),
    "softmax": Subject(
        "x=tensor(M, N, dtypes=FLOATS, values='-inf')",
        "torch.softmax(x, -1)",
        (k.softmax_base_2,),
        (k.softmax_without_max, k.softmax_padded_with_0),
    ),
    "amax": Subject(
        "x=tensor(M, N, dtypes=FLOATS, values='any')",
        "x.amax(1)",
        (k.amax,),
        (k.amax_padded_with_0, k.amax_without_nan),
    ),
    "variance by a poor reference": Subject(
        X,
        "(x * x).mean(1) - x.mean(1) ** 2",
        (k.variance_two_pass, k.variance_one_pass),
        (k.variance_unbiased,),
    ),
    "swiglu": Subject(
        "x=tensor(M, 2 * N, dtypes=FLOATS)",
        "F.silu(x[..., : x.shape[-1] // 2]) * x[..., x.shape[-1] // 2 :]",
        (k.swiglu_fused,),
        (k.swiglu_swapped,),
    ),
    "gelu of a matmul": Subject(XW, "F.gelu(x @ w)", (k.gelu_matmul,), (k.gelu_matmul_tanh,), point="M=8, N=8, K=8"),
    "int8 quantise": Subject(
        "x=tensor(M, N)",
        "torch.round(x / (x.abs().amax(1, keepdim=True) / 127)).to(torch.int8)",
        (k.quantise_reciprocal,),
        (k.quantise_truncated,),
    ),
    "float16 product": Subject(
        "x=tensor(N, dtypes='float16')",
        "x * 3",
        (k.triple_one_ulp_off, lambda x: x + x + x),
        (k.triple_rounded_twice,),
        point="N=256",
    ),
    "tanh": Subject(X, "torch.tanh(x)", (k.tanh_by_sigmoid,), (k.tanh_clamped,)),
    "standard deviation": Subject(
        X,
        "x.std(-1, unbiased=False)",
        (lambda x: k.variance_two_pass(x.float()).sqrt().to(x.dtype),),
        (k.std_one_pass,),
    ),
    "comparison": Subject(
        "x=tensor(M, N); y=tensor(M, N)", "x > y", (lambda x, y: x - y > 0,), (lambda x, y: x >= y, lambda x, y: y > x)
    ),
    "scatter in place": Subject(
        "acc=tensor(M); index=tensor(N, dtypes='int64', low=0, high=M); src=tensor(N)",
        "acc.index_add_(0, index, src)",
        (k.scatter,),
        (k.scatter_losing_duplicates,),
        options="mutates='acc',",
    ),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors here are small: more threads only wait for one another where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def judged(op: LoadedOperator, kernel: Callable[..., Any], inputs: CallInputs, draws: int = 8) -> Finding | None:
    storages = [b.storage.clone() for b in inputs.buffers()]
    answer = kernel(*inputs.on(storages))
    outputs = [answer] if isinstance(answer, torch.Tensor) else list(answer)
    known = truth(op, inputs, draws=draws)
    return compare(known, outputs, op, inputs, after=storages) or untouched(op, inputs, storages)


@pytest.mark.parametrize("name", SUBJECTS)
def test_honest_kernels_pass_and_faulty_ones_do_not(tmp_path: Path, name: str) -> None:
    subject = SUBJECTS[name]
    op = made(tmp_path, subject.text())
    refuse_trivial(op, 0)
    left = list(subject.faulty)
    for case in cases(op, level=Level.QUICK, seed=1, blocks=(64,)):
        inputs = materialise(op, case, 11)
        known = truth(op, inputs, draws=8)
        assert not known.notes
        for kernel in (*subject.honest, *left):
            storages = [b.storage.clone() for b in inputs.buffers()]
            found = compare(known, [kernel(*inputs.on(storages))], op, inputs, after=storages)
            if kernel in subject.honest:
                assert found is None, f"{kernel.__name__} at {case.where().describe()}: {found}"
                assert untouched(op, inputs, storages) is None
            elif found is not None:
                left.remove(kernel)
    assert not [kernel.__name__ for kernel in left], "faulty kernels that passed"


def test_one_dropped_key_of_many_is_seen(tmp_path: Path) -> None:
    subject = SUBJECTS["attention"]
    op = made(tmp_path, subject.text())
    dims = {"B": 1, "K": 4, "N": 64, "L": 4099}
    inputs = materialise(op, Case(dims=dims, dtypes=dict.fromkeys("qkv", "float32")), 3)
    assert judged(op, k.attention, inputs) is None
    assert judged(op, k.attention_without_last_key, inputs) is not None


SUM = """
@operator(x=tensor(M, N, dtypes=FLOATS, values='any'), workloads=[workload(M=4, N=8)])
def f(x):
    return {}
"""
CHECK = """
def check(output, expected, x):
    assert output[0].shape == x.shape, 'shapes'
    return bool((output[1] > 0).all())
"""


def at(op: LoadedOperator, **values: Any) -> CallInputs:
    case = Case(dims={"M": 4, "N": 8}, dtypes={"x": values.pop("dtype", "float32")}, **values)
    return materialise(op, case, 5)


def test_the_contract_on_type_dtype_shape_and_strides(tmp_path: Path) -> None:
    op = made(tmp_path, SUM.format("x.sum(-1, keepdim=True) + x"))
    inputs = at(op)

    class Lazy(torch.Tensor):
        pass

    def outcome(change: Callable[[torch.Tensor], Any]) -> Outcome | None:
        found = judged(op, lambda x: change(op.reference(x)), inputs)
        return found.outcome if found else None

    assert outcome(lambda y: y) is None
    assert outcome(lambda y: y.double()) is Outcome.WRONG_DTYPE
    assert outcome(lambda y: y.half()) is Outcome.WRONG_DTYPE
    assert outcome(lambda y: y.as_subclass(Lazy)) is Outcome.WRONG_DTYPE
    assert outcome(lambda y: y[:, :-1]) is Outcome.WRONG_SHAPE
    assert outcome(lambda y: y.t().contiguous().t()) is Outcome.WRONG_SHAPE
    assert outcome(lambda y: (y, y)) is Outcome.WRONG_SHAPE


def test_a_tuple_is_no_tensor_but_may_be_a_list(tmp_path: Path) -> None:
    def says(body: str, kind: str, count: int) -> str | None:
        op = made(tmp_path, SUM.replace("workloads", "mutates='x', workloads").format(body))
        found = held_otherwise(truth(op, at(op), draws=1), kind, count)
        return found.message if found else None

    assert says("x * 2", "tensor", 1) is None
    assert says("x * 2", "list", 1) == "returned a list of 1 tensor, the reference returns a tensor"
    assert says("(x * 2,)", "tensor", 1) == "returned a tensor, the reference returns a tuple of 1 tensor"
    assert says("(x * 2, x + 1)", "list", 2) is None
    assert says("x.mul_(2)", "none", 0) is None
    assert says("(x.mul_(2), None)[1]", "none", 0) is None
    assert says("(x.mul_(2), None)[1]", "tuple", 0) == "returned a tuple of 0 tensors, the reference returns nothing"


def test_a_mismatch_names_the_worst_element(tmp_path: Path) -> None:
    op = made(tmp_path, SUM.format("x * 2"))
    inputs = at(op)

    def kernel(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[1, 2] += 1e-3
        y[3, 4] = 77.0
        return y

    found = judged(op, kernel, inputs)
    assert found is not None
    assert found.mismatch is not None
    assert (found.mismatch.index, found.mismatch.got, found.mismatch.count, found.mismatch.total) == (
        (3, 4),
        77.0,
        2,
        32,
    )
    assert found.message.startswith("output 0[3, 4] is 77, should be ")
    assert "2 of 32 elements are wrong" in found.message


def test_nan_inf_and_signed_zero(tmp_path: Path) -> None:
    op = made(tmp_path, SUM.format("torch.relu(x)"))
    for kind in ("one NaN", "infinite", "signed zero"):
        inputs = at(op, values=kind)
        assert judged(op, lambda x: torch.where((x > 0) | x.isnan(), x, -0.0), inputs) is None
    nan, inf = at(op, values="one NaN"), at(op, values="infinite")
    assert judged(op, lambda x: torch.relu(x).nan_to_num(0.0), nan) is not None
    assert judged(op, lambda x: torch.relu(x).clamp(max=3e38), inf) is not None
    assert judged(op, lambda x: torch.full_like(x, float("nan")), at(op)) is not None


def test_overflow_is_right_where_the_reference_overflows_and_only_there(tmp_path: Path) -> None:
    op = made(tmp_path, SUM.format("x * x"))
    inputs = at(op, dtype="float16", values="large")
    assert not op.reference(*inputs.arguments()).isfinite().all()
    assert judged(op, lambda x: (x.float() * x.float()).half(), inputs) is None
    assert judged(op, lambda x: (x.float() * x.float()).clamp(max=6e4).half(), inputs) is not None
    assert judged(op, lambda x: torch.full_like(x, float("inf")), inputs) is not None


def test_inputs_and_the_memory_beside_them(tmp_path: Path) -> None:
    op = made(tmp_path, SUM.format("x + 1"))
    inputs = at(op)

    def in_place(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        x.zero_()
        return y

    found = judged(op, in_place, inputs)
    assert found is not None
    assert found.outcome is Outcome.MUTATED_INPUT

    def past_the_end(x: torch.Tensor) -> torch.Tensor:
        torch.as_strided(x, (2,), (1,), x.storage_offset() + x.numel()).zero_()
        return x + 1

    found = judged(op, past_the_end, inputs)
    assert found is not None
    assert (found.outcome, "0 bytes past its end" in found.message) == (Outcome.OUT_OF_BOUNDS, True)


def test_gaps_between_rows_are_guarded(tmp_path: Path) -> None:
    text = SUM.replace("values='any'", "layouts=('contiguous', 'rows sliced')").replace(
        "workloads", "mutates='x', workloads"
    )
    op = made(tmp_path, text.format("x.add_(1)"))
    inputs = at(op, layouts={"x": "rows sliced"})
    assert judged(op, lambda x: x.add_(1), inputs) is None

    def whole_rows(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        x.as_strided((x.shape[0], x.stride(0)), x.stride(), x.storage_offset())[0, x.shape[1] :] = 0
        return x

    found = judged(op, whole_rows, inputs)
    assert found is not None
    assert (found.outcome, "between its rows" in found.message) == (Outcome.OUT_OF_BOUNDS, True)
    unchanged = judged(op, lambda x: x.clone().add_(1), inputs)
    assert unchanged is not None
    assert unchanged.outcome is Outcome.WRONG_VALUES


def test_own_check_replaces_the_comparison_of_values(tmp_path: Path) -> None:
    text = CHECK + SUM.replace("workloads", "check=check, workloads").format("(x, x * 0 + 1)")
    op = made(tmp_path, text)
    inputs = at(op)
    assert judged(op, lambda x: (x.clone() + 9, torch.full_like(x, 5.0)), inputs) is None
    found = judged(op, lambda x: (x.clone(), x * 0), inputs)
    assert found is not None
    assert found.message.startswith("the operator's check says no (an `assert")
    broken = made(tmp_path, text.replace("output[0].shape", "output[7].shape"))
    with pytest.raises(OperatorError, match="check= raised IndexError"):
        judged(broken, broken.reference, inputs)


def test_a_mutated_argument_need_not_be_returned_but_may(tmp_path: Path) -> None:
    text = SUM.replace("workloads", "mutates='x', workloads").format("x.mul_(2), x.sum(-1)")
    op = made(tmp_path, text)
    inputs = at(op)
    assert judged(op, lambda x: (x.mul_(2), x.sum(-1)), inputs) is None
    assert judged(op, lambda x: x.mul_(2).sum(-1), inputs) is None
    found = judged(op, lambda x: (x * 2).sum(-1), inputs)
    assert found is not None
    assert found.outcome is Outcome.WRONG_VALUES


IN_PLACE = """
def check(output, expected, x):
    return bool((output == expected).all() and (output != x).any())

@operator(x=tensor(M, N), mutates="x", check=check, workloads=[workload(M=4, N=8)])
def f(x):
    x.mul_(2)
"""


def test_own_check_of_an_operator_that_returns_nothing(tmp_path: Path) -> None:
    op = made(tmp_path, IN_PLACE)

    def nothing(x: torch.Tensor) -> tuple[()]:
        x.mul_(2)
        return ()

    assert judged(op, nothing, at(op)) is None
    assert judged(op, lambda x: (), at(op)) is not None


def test_a_users_bound_and_a_teams_tolerance_widen(tmp_path: Path) -> None:
    inputs = at(made(tmp_path, SUM.format("x.sum(-1)")))

    def off(x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1) + 2e-5

    assert judged(made(tmp_path, SUM.format("x.sum(-1)")), off, inputs) is not None
    bounded = SUM.replace("workloads", "bound=lambda x: x.double().abs().sum(1), workloads").format("x.sum(-1)")
    assert judged(made(tmp_path, bounded), off, inputs) is None
    team = SUM.replace("workloads", "tolerance='kernelbench', workloads").format("x.sum(-1)")
    assert judged(made(tmp_path, team), off, inputs) is None
    with pytest.raises(OperatorError, match="the tolerance policy 'mine' is not known"):
        made(tmp_path, team.replace("kernelbench", "mine"))


def test_a_reference_without_float64_is_judged_in_its_own_dtype(tmp_path: Path) -> None:
    body = "x * (2 if x.dtype != torch.float64 else torch.zeros(3, 3, 3))[0] if x.dtype == torch.float64 else x * 2"
    op = made(tmp_path, SUM.format(body))
    known = truth(op, at(op), draws=2)
    assert "does not run in float64" in known.notes[0]
    assert judged(op, lambda x: x * 2, at(op)) is None
    assert judged(op, lambda x: x * 2.001, at(op)) is not None


def test_float32_inside_a_reference_is_lifted(tmp_path: Path) -> None:
    op = made(tmp_path, SUM.format("(x.float() / 3).to(x.dtype) + torch.ones(1, dtype=torch.float32)"))
    inputs = at(op)
    (x,) = inputs.arguments()
    exact = truth(op, inputs, draws=1).outputs[0].truth
    assert torch.equal(exact, x.double() / 3 + 1)


TRIVIAL = {
    "zero": ("x * 0", "zero passes"),
    "a constant": ("torch.full_like(x, 3.0)", "a constant passes"),
    "a copy": ("x.clone()", "a copy of x passes"),
    "a copy in another shape and dtype": ("x.reshape(-1, 2).double()", "a copy of x passes"),
    "ones": ("torch.ones_like(x)", "a constant passes"),
}


@pytest.mark.parametrize("name", TRIVIAL)
def test_operators_that_need_no_kernel_are_refused(tmp_path: Path, name: str) -> None:
    body, message = TRIVIAL[name]
    with pytest.raises(OperatorError, match=message):
        refuse_trivial(made(tmp_path, SUM.format(body)), 0)


@pytest.mark.parametrize("body", ["x.sum()", "x.double().sum().float()", "x.reshape(-1).argmax()"])
def test_one_number_that_depends_on_the_input_is_no_constant(tmp_path: Path, body: str) -> None:
    refuse_trivial(made(tmp_path, SUM.format(body)), 0)


def test_a_random_reference_needs_a_check(tmp_path: Path) -> None:
    text = SUM.format("F.dropout(x, 0.5, training=True)")
    with pytest.raises(OperatorError, match="draws random numbers"):
        refuse_trivial(made(tmp_path, text), 0)
    check = "check=lambda y, want, x: bool(((y == 0) | (y == 2 * x)).all() and y.any()), workloads"
    with_check = text.replace("workloads", check)
    refuse_trivial(made(tmp_path, with_check), 0)


OTHER_DTYPES = {
    "float8 in": "x=tensor(M, N, dtypes=('float8_e4m3fn', 'float8_e5m2'))",
    "complex": "x=tensor(M, N, dtypes='complex64')",
    "0-d": "x=tensor(dtypes=FLOATS)",
    "integers": "x=tensor(M, N, dtypes=('int8', 'int32', 'uint8'))",
}


@pytest.mark.parametrize("name", OTHER_DTYPES)
def test_dtypes_without_much_arithmetic_are_judged_too(tmp_path: Path, name: str) -> None:
    text = f"""
    @operator({OTHER_DTYPES[name]}, y=tensor(M, N), workloads=[workload(M=4, N=8)])
    def f(x, y):
        x = x if x.is_complex() else x.float()
        return x * y + 1, (x.abs() * 3).to(torch.float8_e4m3fn)
    """
    op = made(tmp_path, text)
    refuse_trivial(op, 0)
    for case in cases(op, level=Level.QUICK, seed=0, blocks=()):
        inputs = materialise(op, case, 2)
        assert judged(op, op.reference, inputs) is None
    inputs = materialise(op, workload_cases(op)[0], 2)
    assert judged(op, lambda x, y: (op.reference(x, y)[0] * 1.01, op.reference(x, y)[1]), inputs) is not None

    def doubled(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = op.reference(x, y)
        return first, (second.float() * 2).to(second.dtype)

    assert judged(op, doubled, inputs) is not None


def test_dtypes_of_workloads_are_looked_at_one_by_one(tmp_path: Path) -> None:
    """In float16 these answers are below the smallest number there is."""
    text = SUM.replace("workload(M=4, N=8)", "workload(M=4, N=8, x='float32'), workload(M=4, N=9, x='float16')")
    with pytest.raises(OperatorError, match="zero passes as the answer at M=4, N=9, x=float16"):
        refuse_trivial(made(tmp_path, text.format("x * 1e-9")), 0)


def test_an_operator_that_clears_its_argument_needs_no_kernel(tmp_path: Path) -> None:
    text = SUM.replace("workloads", "mutates='x', workloads")
    with pytest.raises(OperatorError, match="zero passes"):
        refuse_trivial(made(tmp_path, text.format("x.mul_(0)")), 0)
    refuse_trivial(made(tmp_path, text.format("x.mul_(2)")), 0)


def test_one_output_below_a_policys_tolerance_is_refused(tmp_path: Path) -> None:
    text = SUM.replace("workloads", "tolerance='kernelbench', workloads")
    with pytest.raises(OperatorError, match="zero for output 1 passes") as raised:
        refuse_trivial(made(tmp_path, text.format("(x * 2, x * 1e-5)")), 0)
    assert "atol 0.0001" in raised.value.hint
    refuse_trivial(made(tmp_path, text.format("(x * 2, x * 3)")), 0)


def test_a_check_that_looks_at_no_values_is_refused(tmp_path: Path) -> None:
    text = SUM.replace("workloads", "check=lambda y, want, x: y.shape == want.shape, workloads")
    with pytest.raises(OperatorError, match="zero passes") as raised:
        refuse_trivial(made(tmp_path, text.format("x * 2")), 0)
    assert "check= look at the values" in raised.value.hint


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("None", "check= returned None"),
        ("y == want", r"check= returned a tensor of shape \(4, 8\)"),
        ("bool((y == want + 1).all())", "check= refuses the reference's own answer at M=4, N=8.*says no"),
        ("bool((y == want.foo).all())", "check= raised AttributeError"),
    ],
)
def test_a_check_that_cannot_be_met_is_refused(tmp_path: Path, check: str, message: str) -> None:
    text = SUM.replace("workloads", f"check=lambda y, want, x: {check}, workloads")
    with pytest.raises(OperatorError, match=message):
        refuse_trivial(made(tmp_path, text.format("x * 2")), 0)


def test_a_check_must_allow_for_other_seeds(tmp_path: Path) -> None:
    text = SUM.replace("workloads", "check=lambda y, want, x: bool((y == want).all()), workloads")
    with pytest.raises(OperatorError, match="refuses the reference's own answer") as raised:
        refuse_trivial(made(tmp_path, text.format("F.dropout(x, 0.5, training=True)")), 0)
    assert "under other seeds" in raised.value.hint


def test_a_tolerance_that_lets_zeros_pass_is_refused(tmp_path: Path) -> None:
    text = SUM.replace("N=8", "N=16384").replace("workloads", "tolerance='kernelbench', workloads")
    with pytest.raises(OperatorError, match="zero passes") as raised:
        refuse_trivial(made(tmp_path, text.replace("FLOATS", "'bfloat16'").format("torch.softmax(x, -1)")), 0)
    assert "the answers there are at most" in raised.value.hint


def test_a_reference_that_raises_says_where(tmp_path: Path) -> None:
    op = made(tmp_path, SUM.format("x + (1 if x.shape[0] < 9 else x[:, :, 1])"))
    with pytest.raises(OperatorError, match=r"op.py:\d+: the reference raised at M=9, N=8, x=float32") as raised:
        truth(op, materialise(op, Case(dims={"M": 9, "N": 8}, dtypes={"x": "float32"}), 0), draws=1)
    assert raised.value.line is not None

"""Native operator files: everything they can say, and what a person is told when one is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith.errors import OperatorError
from kernelsmith.model import OperatorRef
from kernelsmith.operators.load import load
from tests.operators.files import HEAD, made, write

SOFTMAX = """
@operator(x=tensor(M, N, dtypes=FLOATS), workloads=[workload(M=64, N=32, x="bfloat16", weight=0.5)])
def softmax(x: torch.Tensor) -> torch.Tensor:
    "Row softmax."
    return torch.softmax(x, dim=-1)
"""


def test_a_softmax_in_the_form_that_users_write(tmp_path: Path) -> None:
    op = made(tmp_path, SOFTMAX)
    info = op.info
    assert (info.name, info.kind, info.doc) == ("softmax", "native", "Row softmax.")
    assert info.signature == "def softmax(x: torch.Tensor) -> torch.Tensor"
    assert [(d.name, d.low, d.high) for d in info.dims] == [("M", 1, 65536), ("N", 1, 16384)]
    assert info.arguments[0].shape == "(M, N)"
    assert info.arguments[0].dtypes == ("float32", "bfloat16", "float16")
    assert info.ops == ("aten._softmax",)
    (tuned,) = info.workloads
    assert (tuned.dims, tuned.dtypes, tuned.weight) == ({"M": 64, "N": 32}, {"x": "bfloat16"}, 0.5)


def test_everything_an_operator_can_say(tmp_path: Path) -> None:
    op = made(
        tmp_path,
        """
        G = Dim("G", 1, 8)

        @operator(
            x=tensor(M, 2 * N + 1, dtypes=("float16", "float32"), layouts=("contiguous", "rows sliced")),
            w=tensor(N // G, dtypes="same as x", values="positive", optional=True),
            parts=tensors(G, count=G),
            index=tensor(M, dtypes="int64", low=0, high=N, values=("sorted",)),
            out=tensor(M, dtypes=torch.float32),
            mode=scalar(choices=("sum", "mean")),
            eps=scalar(float, 1e-6, 1e-2),
            where=[N % G == 0, lambda M, N: M <= 4 * N],
            mutates="out",
            plan_relevant=["index"],
            tolerance="torch",
            bound=lambda *inputs: inputs[0].abs().sum(1),
            check=lambda output, expected, *inputs: True,
            properties=lambda call, *inputs: True,
            baseline=lambda *inputs: inputs[4],
            workloads=[workload(M=4, N=8, G=2, x="float32", w=None, mode="mean")],
        )
        def fused(x, w, parts, index, out, mode="sum", eps=1e-5):
            out.copy_(x.float().mean(1) + parts[0].sum() + eps)
            return x[index % x.shape[0]], out
        """,
    )
    assert op.info.relations == ("N % G == 0", "lambda M, N: M <= 4 * N")
    assert op.dtype_sets[0] == {
        "x": "float16", "w": "float16", "parts": "float32", "index": "int64", "out": "float32",
    }  # fmt: skip
    assert len(op.dtype_sets) == 2
    assert op.workloads[0].scalars == {"w": None, "mode": "mean", "eps": 1e-5}
    assert (op.mutates, op.plan_relevant, op.tolerance) == (("out",), ("index",), "torch")
    assert all(callable(hook) for hook in (op.bound, op.check, op.properties, op.baseline))
    words = {a.name: a for a in op.info.arguments}
    assert (words["x"].shape, words["parts"].kind, words["parts"].shape) == ("(M, (2 * N) + 1)", "list", "(G,) x G")
    assert words["index"].values == "sorted, from 0 to N"
    assert words["w"].optional
    assert not op.legal({"M": 4, "N": 7, "G": 2})
    assert op.why_illegal({"M": 99, "N": 8, "G": 2}) == "where= lambda M, N: M <= 4 * N does not hold"


def test_dtype_combinations_across_arguments(tmp_path: Path) -> None:
    op = made(
        tmp_path,
        """
        @operator(
            x=tensor(N, dtypes=FLOATS), y=tensor(N, dtypes=FLOATS), z=tensor(N, dtypes="same as y"),
            dtypes=[{"x": "float16", "y": "float32"}, {"x": "float32", "y": torch.bfloat16}],
            workloads=[workload(N=8, x="float32")],
        )
        def add(x, y, z):
            return x + y + z
        """,
    )
    assert op.dtype_sets[1] == {"x": "float32", "y": "bfloat16", "z": "bfloat16"}
    assert op.workloads[0].dtypes == op.dtype_sets[1]


WRONG = {
    "syntax error": ("def f(:\n", "syntax error", 7),
    "file that raises": ("\nx = 1 // 0\n", "ZeroDivisionError", 8),
    "no operator": ("def f(x):\n    return x\n", "declares no operator", None),
    "two operators": (SOFTMAX + SOFTMAX.replace("softmax(", "other(").replace("torch.other", "torch.softmax"),
                      "declares 2 operators: softmax (line 8), other (line 13)", None),
    "reference that raises": (SOFTMAX.replace("torch.softmax(x, dim=-1)", "x @ x"), "the reference raised at M=64", 11),
    "no workload": (SOFTMAX.replace('workload(M=64, N=32, x="bfloat16", weight=0.5)', ""), "no workload", 8),
    "workload outside its dims": (SOFTMAX.replace("N=32", "N=16385"), "N=16385 is outside 1..16384", 8),
    "workload without a dim": (SOFTMAX.replace("N=32, ", ""), "dim N is missing", 8),
    "workload with an unknown name": (SOFTMAX.replace("N=32", "N=32, Q=1"), "no dim or argument named Q", 8),
    "workload with a dtype not declared": (SOFTMAX.replace('"bfloat16"', '"int8"'), "dtypes not declared", 8),
    "workload with a bad weight": (SOFTMAX.replace("0.5", "0"), "must be positive", 8),
    "unknown dtype": (SOFTMAX.replace("FLOATS", '"float33"'), "unknown dtype 'float33'", 8),
    "unknown layout": (SOFTMAX.replace("FLOATS", 'FLOATS, layouts="curly"'), "layouts: unknown 'curly'", 8),
    "unknown value word": (SOFTMAX.replace("FLOATS", 'FLOATS, values="odd"'), "values: unknown 'odd'", 8),
    "size that is none": (SOFTMAX.replace("(M, N,", "(M, 1.5,"), "1.5 is not a size", 8),
    "two dims of one name": (SOFTMAX.replace("(M, N,", '(M, Dim("M", 1, 2),'), "two dims named M", 8),
    "dim with an empty range": ("Dim('Z', 3, 2)\n", "needs 0 <= low <= high", 7),
    "undeclared parameter": (SOFTMAX.replace("def softmax(x", "def softmax(y, x"), "parameter y is not declared", 8),
    "declared twice too often": (SOFTMAX.replace("@operator(", "@operator(z=tensor(M), "), "has no parameter z", 8),
    "relation used as a truth value": (SOFTMAX.replace("x=tensor", "where=1 <= N <= 8, x=tensor"), "truth value", 8),
    "relation of an unknown dim": (SOFTMAX.replace("x=tensor", "where=lambda Q: Q > 1, x=tensor"), "no dim named Q", 8),
    "mutates no argument": (SOFTMAX.replace("x=tensor", 'mutates="y", x=tensor'), "'y' is not a tensor argument", 8),
    "check that is no callable": (SOFTMAX.replace("x=tensor", "check=3, x=tensor"), "must be a callable", 8),
    "ends the process": ("raise SystemExit(3)", "SystemExit: 3", 7),
    "interrupts": ("\nraise KeyboardInterrupt", "KeyboardInterrupt", 8),
    "reference that exits": (SOFTMAX.replace("return", "exit(1);"), "SystemExit: 1", 11),
    "relation that exits": (SOFTMAX.replace("x=tensor", "where=lambda M: exit(1), x=tensor"), "SystemExit: 1", 8),
    "returns nothing": (SOFTMAX.replace("return ", ""), "the reference returns nothing", 8),
    "nested too deeply": ("a = " + "-" * 20_000 + "1", "nested too deeply", None),
    "too long a sum": ("a = 1" + " + 1" * 20_000, "nested too deeply", None),
    "same as nothing": (SOFTMAX.replace("FLOATS", '"same as q"'), "leads to no tensor", 8),
    "same as itself": (SOFTMAX.replace("FLOATS", '"same as x"'), "leads to no tensor", 8),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, case: str) -> None:
    text, message, line = WRONG[case]
    path = write(tmp_path, text)
    with pytest.raises(OperatorError) as raised:
        load(OperatorRef(path=str(path)))
    assert message in raised.value.message
    assert raised.value.message.startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert raised.value.line == line


def test_missing_file_and_wrong_options(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="no such operator file"):
        load(OperatorRef(path=str(tmp_path / "none.py")))
    path = write(tmp_path, SOFTMAX)
    with pytest.raises(OperatorError, match="--set M is for KernelBench"):
        load(OperatorRef(path=str(path), overrides={"M": 1}))


def test_what_an_editor_puts_first_is_no_part_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, SOFTMAX, head="\ufeff" + HEAD)
    assert load(OperatorRef(path=str(path))).info.source == HEAD + SOFTMAX


def test_what_is_no_file_is_said_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    for path in (tmp_path, tmp_path / "pipe.py", tmp_path / "loop.py"):
        with pytest.raises(OperatorError, match="cannot read"):
            load(OperatorRef(path=str(path)))


def test_a_declared_operator_is_still_the_function(tmp_path: Path) -> None:
    namespace: dict[str, object] = {}
    exec(HEAD + SOFTMAX + "\nout = softmax(torch.zeros(2, 4))\n", namespace)
    assert namespace["out"].tolist() == [[0.25] * 4] * 2  # type: ignore[attr-defined]


def test_the_words_of_an_operator_file_need_no_torch() -> None:
    probe = (
        "import sys\nfrom kernelsmith import Dim, operator, tensor, workload\nimport kernelsmith\n"
        "assert 'torch' not in sys.modules\nassert kernelsmith.__all__ == sorted(kernelsmith.__all__)\n"
        "assert set(kernelsmith.__all__) <= set(dir(kernelsmith))\n"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)

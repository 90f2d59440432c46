"""TTIR text as three Triton versions print it, and as nobody would."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from kernelsmith.triton_cpu.emit.codegen import generate
from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.isa import AVX2, AVX512
from kernelsmith.triton_cpu.read.ir import Dense, Element, Module, Type, walk
from kernelsmith.triton_cpu.read.lex import MAX_TEXT
from kernelsmith.triton_cpu.read.locations import Locations
from kernelsmith.triton_cpu.read.parse import MAX_DEPTH, MAX_OPS, parse

FOLDER = Path(__file__).parents[1] / "data" / "ttir"
FILES = sorted(FOLDER.glob("*/*.ttir"))
FUNCTION = "module {{\n  tt.func public @f({arguments}) {{\n{body}\n    tt.return\n  }}\n}}\n"


def function(body: str, arguments: str = "%p: !tt.ptr<f32>, %n: i32") -> str:
    return FUNCTION.format(arguments=arguments, body=body)


def counts(module: Module) -> dict[str, int]:
    found: dict[str, int] = {}
    for function in module.functions.values():
        for op in walk(function.body):
            found[op.name] = found.get(op.name, 0) + 1
    return found


def strip_locations(text: str) -> str:
    """The text as it is printed without debug information."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#loc"):
            continue
        while " loc(" in line:
            start = line.index(" loc(")
            depth, end = 0, start + 4
            while True:
                depth += {"(": 1, ")": -1}.get(line[end], 0)
                end += 1
                if depth == 0:
                    break
            line = line[:start] + line[end:]
        lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_version_reads_the_same_with_and_without_locations(path: Path) -> None:
    text = path.read_text()
    module, bare = parse(text), parse(strip_locations(text))
    assert counts(module) == counts(bare)
    assert module.kernel.name == f"{path.stem}_kernel"
    assert any(op.location for op in walk(module.kernel.body))
    assert not any(op.location for op in walk(bare.kernel.body))


@pytest.mark.parametrize("name", sorted({path.stem for path in FILES}))
def test_versions_agree_on_the_operations(name: str) -> None:
    old, new = (counts(parse((FOLDER / version / f"{name}.ttir").read_text())) for version in ("3.6.0", "3.7.1"))
    old["ttg.barrier"] = old.pop("gpu.barrier", 0)
    new.setdefault("ttg.barrier", 0)
    assert {name for name in old if old[name]} == {name for name in new if new[name]}


def test_locations_name_the_line_of_the_kernel_not_of_the_library() -> None:
    module = parse((FOLDER / "3.7.1" / "softmax.ttir").read_text())
    reduce = next(op for op in walk(module.kernel.body) if op.name == "tt.reduce")
    assert reduce.location == "kernels.py:10"


def test_types_and_constants() -> None:
    module = parse(
        function(
            "    %a = arith.constant dense<0xFF800000> : tensor<4xf32>\n"
            "    %b = arith.constant dense<[1, -2, 3, -4]> : tensor<4xi16>\n"
            "    %c = arith.constant -1 : i64\n"
            "    %d = arith.constant true\n"
            "    %e = arith.constant 1.500000e+00 : bf16\n"
            "    %f = tt.splat %p : !tt.ptr<f32> -> tensor<2x4x!tt.ptr<f32>>\n"
        )
    )
    a, b, c, d, e, f, _ = module.kernel.body.entry.ops
    assert a.attributes["value"] == Dense((0xFF800000,))
    assert a.result.type == Type(Element.F32, (4,))
    assert b.attributes["value"] == Dense((1, 0xFFFE, 3, 0xFFFC))
    assert c.attributes["value"] == Dense(((1 << 64) - 1,))
    assert (d.result.type, d.attributes["value"]) == (Type(Element.I1), Dense((1,)))
    assert e.attributes["value"] == Dense((0x3FC0,))
    assert f.result.type == Type(Element.F32, (2, 4), pointer=True)
    assert str(f.result.type) == "tensor<2x4x!tt.ptr<f32>>"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    %a = arith.addi %n, %m : i32", "%m is not defined"),
        ("    %a = arith.addi %n, %n, %n : i32", "arith.addi cannot take"),
        ("    %a = arith.addf %n, %n : i32", "arith.addf cannot take"),
        ("    tt.store %n, %n : i32", "tt.store cannot take"),
        ("    %a = tt.load %n : i32", "tt.load cannot take"),
        ("    %a = tt.splat %n : i32 -> tensor<0xi32>", "at least one element"),
        ("    %a = tt.splat %n : i32 -> tensor<4xf32>", "tt.splat cannot take"),
        ("    %a = arith.constant dense<[1, 2]> : tensor<4xi32>", "4 elements"),
        ("    %a = arith.constant dense<1.0.0> : tensor<4xf32>", "line 3"),
        ("    %a = arith.constant dense<zebra> : tensor<4xf32>", "is no f32"),
        ("    %a = arith.constant 4294967296 : i32", "is no i32"),
        ("    %a, %b = arith.addi %n, %n : i32", "1 results"),
        ("    %a:999999 = arith.addi %n, %n : i32", "sensible number"),
        ("    %a = arith.addi %n, %n : i32 $", "unexpected character"),
        ("    scf.for %i = %n to %n step %n : i64 {\n    }", "loop bounds"),
    ],
)
def test_malformed_text_is_refused_with_the_reason(body: str, words: str) -> None:
    with pytest.raises(TtirError, match=words.replace("(", r"\(").replace("%", "%")):
        parse(function(body))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    %a = tt.splat %n : i32 -> tensor<4xf4E2M1FN>", "f4E2M1FN"),
        ("    %a = tt.splat %n : i32 -> tensor<99999999xi32>", "more than"),
        ("    %a = tt.frobnicate %n : i32", "tt.frobnicate"),
        ("    %a = tt.frobnicate %n : i32 -> i32", "tt.frobnicate"),
        ("    %a = math.frobnicate %f : f32", "frobnicate"),
    ],
)
def test_constructs_that_are_not_covered_are_named(body: str, words: str) -> None:
    with pytest.raises(UnsupportedConstruct, match=words):
        generate(function(body, "%p: !tt.ptr<f32>, %n: i32, %f: f32"), isa=AVX512)


@pytest.mark.parametrize(
    "body",
    [
        "    %a = arith.addi %n : i32",
        "    %a = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
        "    %b = tt.trans %a {order = array<i32: 1>} : tensor<8xi32> -> tensor<8xi32>\n"
        "    %q = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>\n"
        "    tt.store %q, %b : tensor<8x!tt.ptr<i32>>",
    ],
)
def test_operations_whose_operands_do_not_fit_are_no_bare_errors(body: str) -> None:
    with pytest.raises((TtirError, UnsupportedConstruct)):
        generate(function(body, "%p: !tt.ptr<i32>, %n: i32"), isa=AVX512)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('    %a = "tt.gather"(%t) <{axis = 0 : i32}> : (tensor<8xi32>) -> tensor<8xi32>', "tt.gather cannot take"),
        ("    %a = tt.gather %t[%t] {axis = 3 : i32} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>", "no axis 3"),
        (
            "    %a = tt.gather %t[%t] {axis = 0 : i32} : (tensor<8xi32>, tensor<8xi32>) -> tensor<16xi32>",
            "cannot give",
        ),
        ("    %a = tt.expand_dims %t {axis = 0 : i32} : tensor<8xi32> -> tensor<8x1xi32>", "cannot give"),
        ("    %a = tt.join %t : tensor<8xi32> -> tensor<8x2xi32>", "tt.join cannot take"),
        ("    %a = tt.splat %n : i32 -> ()", "tt.splat cannot take"),
        ("    %a = tt.atomic_cas acq_rel, gpu, %p, %n : (!tt.ptr<i32>, i32) -> i32", "tt.atomic_cas cannot take"),
    ],
)
def test_operands_are_counted_and_shapes_compared_once(body: str, words: str) -> None:
    range_ = "    %t = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
    with pytest.raises(TtirError, match=words):
        parse(function(range_ + body, "%p: !tt.ptr<i32>, %n: i32"))


def test_mutated_text_is_compiled_or_refused() -> None:
    chance = random.Random(7)
    texts = [
        strip_locations((FOLDER / "3.7.1" / f"{name}.ttir").read_text()) for name in ("misc", "atomics", "softmax")
    ]
    kept = [re.findall(r"\s+|[%\w.#!]+|.", text) for text in texts]
    refused = 0
    for number in range(200):
        tokens = list(chance.choice(kept))
        at = chance.randrange(len(tokens))
        if number % 3 == 0:
            del tokens[at : at + chance.randint(1, 3)]
        elif number % 3 == 1:
            tokens.insert(at, tokens[at])
        else:
            values = [place for place, token in enumerate(tokens) if token.startswith("%")]
            tokens[chance.choice(values)] = tokens[chance.choice(values)]
        try:
            generate("".join(tokens), checked=number % 2 == 0, isa=AVX512)
        except (TtirError, UnsupportedConstruct):
            refused += 1
    assert 0 < refused < 200


def test_an_uncovered_construct_is_reported_with_its_line() -> None:
    text = function('    %a = tt.frobnicate %n : i32 -> i32 loc("kernel.py":12:3)')
    with pytest.raises(UnsupportedConstruct) as caught:
        generate(text, isa=AVX512)
    assert caught.value.construct == "tt.frobnicate"
    assert caught.value.location == "kernel.py:12"
    assert "kernel.py:12" in str(caught.value)


def test_text_without_end_depth_without_end_and_length_without_end() -> None:
    nested = "    scf.if %b {\n" * (MAX_DEPTH + 1) + "    }\n" * (MAX_DEPTH + 1)
    with pytest.raises(TtirError, match="nest deeper"):
        parse(function(nested, "%b: i1"))
    with pytest.raises(UnsupportedConstruct, match="more than"):
        parse(function("    %a = arith.addi %n, %n : i32\n" * (MAX_OPS + 1)))
    with pytest.raises(TtirError, match="at most"):
        parse(" " * (MAX_TEXT + 1))
    with pytest.raises(TtirError):
        parse("module {\n tt.func public @f(%p: !tt.ptr<" * 3)
    with pytest.raises(TtirError, match="exactly one public"):
        parse("module {\n}\n")


def calls(depth: int, each: int, body: str) -> str:
    """A kernel and functions of which each calls the next several times; the last does `body`."""
    call = "    tt.call @f{}() : () -> ()\n"
    private = "  tt.func private @f{}() {{\n{}    tt.return\n  }}\n"
    inner = [private.format(n, call.format(n + 1) * each if n + 1 < depth else body) for n in range(depth)]
    kernel = "  tt.func public @f() {\n" + call.format(0) * each + "    tt.return\n  }\n"
    return "module {\n" + "".join(inner) + kernel + "}\n"


@pytest.mark.parametrize("body", ["", "    %c = arith.constant 1 : i32\n    %d = arith.addi %c, %c : i32\n"])
def test_short_text_that_means_endless_code_is_refused_soon(body: str) -> None:
    assert generate(calls(3, 3, body), isa=AVX2).source.count("[&]") > 27
    with pytest.raises(UnsupportedConstruct, match="would have more than"):
        generate(calls(8, 10, body), isa=AVX2)  # 10^8 copies


@pytest.mark.parametrize(
    "body",
    [
        "    %a = tt.splat %n : i32 -> tensor<{}xi32>",
        "    %a = tt.make_range {{end = {} : i32, start = 0 : i32}} : tensor<8xi32>",
        "    %a = arith.constant {} : i32",
        "    %a:{} = tt.frobnicate %n : i32",
    ],
)
def test_numbers_of_thousands_of_digits_are_refused(body: str) -> None:
    with pytest.raises(TtirError, match="characters"):
        generate(function(body.format("9" * 5000)), isa=AVX2)


def test_long_chains_of_expressions_neither_overflow_nor_explode() -> None:
    chain = ["    %x0 = tt.splat %f : f32 -> tensor<16xf32>"]
    chain += [f"    %x{n + 1} = arith.addf %x{n}, %x{n} : tensor<16xf32>" for n in range(1500)]
    chain += ["    %q = tt.splat %p : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>"]
    chain += ["    tt.store %q, %x1500 : tensor<16x!tt.ptr<f32>>"]
    kernel = generate(function("\n".join(chain), "%p: !tt.ptr<f32>, %f: f32"), isa=AVX2)
    assert kernel.source.count(" + ") < 5000


def test_offsets_that_are_long_chains_do_not_explode_in_checked_builds() -> None:
    chain = ["    %x0 = tt.splat %n : i32 -> tensor<16xi32>"]
    chain += [f"    %x{n + 1} = arith.addi %x{n}, %x{n} : tensor<16xi32>" for n in range(500)]
    chain += ["    %q = tt.splat %p : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>"]
    chain += ["    %a = tt.addptr %q, %x500 : tensor<16x!tt.ptr<f32>>, tensor<16xi32>"]
    chain += ["    %v = tt.load %a : tensor<16x!tt.ptr<f32>>", "    tt.store %q, %v : tensor<16x!tt.ptr<f32>>"]
    kernel = generate(function("\n".join(chain)), isa=AVX2, checked=True)
    assert kernel.source.count(" + ") < 5000


def test_damaged_text_never_escapes_as_another_error() -> None:
    draw = random.Random(7)
    texts = [(FOLDER / "3.7.1" / f"{name}.ttir").read_text() for name in ("softmax", "early_return", "atomics")]
    pieces = [
        "%",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        ":",
        "tensor<4xf32>",
        "scf.yield",
        "^bb9",
        "99999999999",
        '"',
        "->",
        " loc(",
    ]
    outcomes = {"kept": 0, "refused": 0}
    for _ in range(300):
        text = strip_locations(draw.choice(texts))
        at = draw.randrange(len(text))
        until = min(len(text), at + draw.randrange(12))
        damaged = text[:at] + draw.choice(["", draw.choice(pieces)]) + text[until:]
        try:
            generate(damaged, isa=AVX512)
            outcomes["kept"] += 1
        except (TtirError, UnsupportedConstruct):
            outcomes["refused"] += 1
    assert outcomes["refused"] > 100


@pytest.mark.parametrize("piece", ['\\"', '"', '"a":1:', '"a\\'])
def test_a_location_is_read_in_linear_time(piece: str) -> None:
    """Four times the text takes some four times as long, where a quadratic pattern takes sixteen times."""

    def seconds(n: int) -> float:
        took = []
        for _ in range(2):
            begin = time.process_time()
            assert Locations("").resolve(piece * n) is None
            took.append(time.process_time() - begin)
        return min(took)

    assert seconds(200_000) < 9 * seconds(50_000) + 0.2

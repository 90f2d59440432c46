"""Hostile text at both readers: what children say, and TTIR that becomes C++.

Honest text is damaged where it has structure, deterministically. Readers give back something valid or their own error;
C++ never holds what an attacker wrote but as part of a name or inside of a string.
"""

from __future__ import annotations

import ast
import copy
import json
import pickle
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

import kernelsmith
from kernelsmith.faults import Fault, FaultKind
from kernelsmith.outcome import Outcome
from kernelsmith.plan import (
    MAX_ARGUMENTS,
    MAX_STATE_BYTES,
    MAX_STEPS,
    Copy,
    Fill,
    InputBuffer,
    Kernel,
    Launch,
    LaunchPlan,
    PointerArgument,
    ScalarArgument,
    ScratchBuffer,
    StateBuffer,
    View,
    without_locations,
)
from kernelsmith.sandbox.children.zygote import ChildEnded, Zygote
from kernelsmith.sandbox.limits import Ending
from kernelsmith.sandbox.wire import kernel_text
from kernelsmith.sandbox.wire.messages import (
    Called,
    Choice,
    Examined,
    Failed,
    KernelBuild,
    Launched,
    Loaded,
    OutputTensor,
    Prepared,
    Replay,
    Replayed,
    Sampled,
    Structure,
    Tunable,
    state_regions,
)
from kernelsmith.sandbox.wire.reading import MAX_REPLY_VALUES, candidate_reply, launcher_reply
from kernelsmith.triton_cpu.emit.codegen import generate
from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.isa import AVX512
from tests.sandbox.players import SCALE, Candidate, Packed, Replayer, loaded

# ---------------------------------------------------------------- replies

X = View(buffer=0, dtype="float32", shape=(8,), strides=(1,))
TEXT = "module {\n  tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {\n    tt.return\n  }\n}\n"
PLAN = LaunchPlan(
    buffers=(InputBuffer(index=0, nbytes=32), ScratchBuffer(nbytes=32), StateBuffer(index=0, nbytes=32, content="0")),
    kernels=(Kernel(name="k", ttir=TEXT, signature=("*fp32", "i32"), options={"num_warps": 4}),),
    steps=(
        Fill(out=X, value="nan"),
        Copy(out=X.model_copy(update={"buffer": 1}), source=X),
        Launch(kernel=0, grid=(2, 1, 1), arguments=(PointerArgument(view=X), ScalarArgument(value=8))),
    ),
    outputs=(X.model_copy(update={"buffer": 1}),),
)
FAULT = Fault(FaultKind.RACE, "k", "k.py:3", "tl.store", (1, 2, 3), lane=(4,), tensor="x", index=(5,), other=(0, 0, 1))
OUTPUT = OutputTensor(dtype="float32", shape=(8,), strides=(1,), offset=0)
REPLIES = (
    Called(plan=PLAN, structure=Structure(kind="tuple"), outputs=(OUTPUT,), choices=(Choice(kernel="k", config=0),)),
    Called(plan=None, launches=(Launched(kernel="k", grid=(1, 1, 1)),), structure=Structure(kind="none"), outputs=()),
    Loaded(tunables=(Tunable(kernel="k", configs=("a", "b"), keys=("n",)),)),
    Prepared(plan_id=0, kernels=(KernelBuild(name="k", seconds=0.5),)),
    Failed(outcome=Outcome.CRASHED, message="m", line=3),
    Sampled(nanoseconds=1000, state_intact=True, overrun=(0, 1)),
    Replayed(outputs=(OUTPUT,), state_intact=True, overrun=(1,)),
    Examined(faults=(FAULT,)),
)
OF_LAUNCHERS = (Prepared, Sampled, Replayed, Examined)
ODD = (-1, 0, 1, 63, 2**31, 2**40, 2**63, 2**64, 10**30, 1.5, "", "0", "nan", "launch", None, True, [], {}, [[0]])


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], (dict, list)):
            yield from places(node[key])


def damage(tree: Any, rng: random.Random) -> Any:
    """A value replaced, nudged, removed, or overwritten by another part of the tree."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        node, key = rng.choice(list(places(tree)))
        other, at = rng.choice(list(places(tree)))
        kind = rng.random()
        if kind < 0.2 and type(node[key]) is int:
            node[key] += rng.choice((-1, 1, 64, 2**40))
        elif kind < 0.6:
            node[key] = copy.deepcopy(rng.choice(ODD))
        elif kind < 0.8:
            node[key] = copy.deepcopy(other[at])
        else:
            del node[key]
        if not tree:
            break
    return tree


def test_damaged_replies_are_refused_or_closed() -> None:
    rng = random.Random(11)
    refused = 0
    for number in range(600):
        reply = REPLIES[number % len(REPLIES)]
        tree = damage(json.loads(reply.model_dump_json()), rng)
        try:
            read = (launcher_reply if isinstance(reply, OF_LAUNCHERS) else candidate_reply)(json.dumps(tree).encode())
        except ValueError:
            refused += 1
            continue
        if isinstance(read, Called) and read.plan is not None:
            assert all(view.extent <= read.plan.buffers[view.buffer].nbytes for view in read.plan.views())
            assert sum(region.nbytes for region in state_regions(read.plan)) <= MAX_STATE_BYTES
            assert len(read.plan.canonical()) < 10_000
        if isinstance(read, OF_LAUNCHERS):
            assert len(max(re.findall(r"[0-9]+", read.model_dump_json()), key=len, default="")) <= 20
    assert 300 < refused < 600


def test_a_reply_is_measured_before_it_is_read() -> None:
    """Every value of a reply costs its reader hundreds of bytes, so their number is bounded first."""
    for piece in (b"0,", b"{},", b'{"kind":"scalar","value":0},'):
        payload = b'{"kind":"repeated","x":[' + piece * (MAX_REPLY_VALUES + 1) + b"0]}"
        with pytest.raises(ValueError, match="at most") as refused:
            candidate_reply(payload)
        assert not isinstance(refused.value, ValidationError)
    wrong = ",".join(f'"k{n}":0' for n in range(1000))
    with pytest.raises(ValueError, match="1000 things are wrong"):
        candidate_reply(f'{{"kind":"repeated",{wrong}}}'.encode())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"buffers": [{"kind": "state", "index": 0, "nbytes": MAX_STATE_BYTES + 1, "content": ""}]}, "less than or"),
        (
            {"buffers": [{"kind": "state", "index": n, "nbytes": 3 << 30, "content": ""} for n in range(3)]},
            "existed before",
        ),
        ({"outputs": [json.loads(X.model_dump_json())] * 257}, "at most 256"),
        (
            {"steps": [{"kind": "launch", "kernel": 0, "grid": [1, 1, 1], "arguments": [{"kind": "null"}] * 1025}]},
            f"at most {MAX_ARGUMENTS}",
        ),
        ({"steps": [{"kind": "fill", "out": json.loads(X.model_dump_json()), "value": 2**64}]}, "less than"),
        ({"steps": [{"kind": "fill", "out": json.loads(X.model_dump_json()), "value": "1" * 65}]}, "at most 64"),
        ({"kernels": [{"name": "k", "ttir": "", "signature": ["i32" * 100], "options": {}}]}, "at most 256"),
        ({"kernels": [{"name": "k", "ttir": "", "signature": [], "options": {"num_warps": 2**64}}]}, "less than"),
    ],
)
def test_every_number_and_text_of_a_plan_is_bounded(change: dict[str, Any], why: str) -> None:
    tree = json.loads(PLAN.model_dump_json()) | {"steps": [], "outputs": []} | change
    with pytest.raises(ValidationError, match=why):
        LaunchPlan.model_validate_json(json.dumps(tree))


def test_a_kernel_s_name_paints_no_terminal() -> None:
    assert not set("\x1b\u202e") & set(Kernel(name="\x1b[2Jk\u202e", ttir="", signature=()).name)
    reply = candidate_reply(
        b'{"kind":"called","plan":null,"launches":[{"kernel":"\\u001b[31mk","grid":[1,1,1]}],'
        b'"structure":{"kind":"none"},"outputs":[]}'
    )
    assert isinstance(reply, Called)
    assert reply.launches[0].kernel == "k"


@pytest.mark.parametrize(
    "tunables", ['[{"kernel":"k","configs":[],"keys":[]}]', '[{"kernel":"k","configs":["a"],"keys":[]}]']
)
def test_a_choice_is_always_between_something(tunables: str) -> None:
    """A kernel without configurations, or two of one name, would let an honest index miss."""
    doubled = tunables.replace("}]", "}," + tunables[1:-1] + "]") if '"a"' in tunables else tunables
    with pytest.raises(ValueError):
        candidate_reply(f'{{"kind":"loaded","tunables":{doubled}}}'.encode())


def test_the_longest_plan_ends_with_its_launcher(roles: Zygote) -> None:
    """Every number is in bounds, and all of them together would take hours: the judge's limit ends it."""
    with Candidate(roles) as candidate, Replayer(roles) as launcher:
        loaded(candidate, SCALE + "def op(x):\n    return scaled(x, torch.empty_like(x), 2.0)\n")
        packed = Packed((torch.ones(100),))
        plan, _ = candidate.called(packed)
        (step,) = plan.steps
        longest = step.model_copy(update={"grid": (1 << 20, 1, 1)})  # as far as the kernel's offsets do not wrap
        plan_id = launcher.prepared(LaunchPlan(**{**dict(plan), "steps": (longest,) * MAX_STEPS}))
        request = Replay(plan_id=plan_id, inputs=packed.regions).model_dump_json().encode()
        with pytest.raises(ChildEnded) as ended:
            launcher.child.request(request, (packed.arena.fd, launcher.out.fd), seconds=0.5)
        assert ended.value.exit.ending is Ending.TIMEOUT


PACKAGE = Path(kernelsmith.__file__).parent
EXECUTABLE = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "multiprocessing", "joblib"}
"""Modules whose formats hold programs, or that use such a format to talk between processes."""
TRUSTED = [path for path in sorted(PACKAGE.rglob("*.py")) if "programs" not in path.parts]


def test_nothing_is_unpickled() -> None:
    for path in TRUSTED:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & EXECUTABLE, path
            loads = isinstance(node, ast.Attribute) and node.attr in ("load", "save")
            assert not (loads and isinstance(node.value, ast.Name) and node.value.id in ("torch", "np")), path
    with pytest.raises(ValueError):
        candidate_reply(pickle.dumps({"kind": "repeated"}))


# ---------------------------------------------------------------- TTIR

FILES = sorted((Path(__file__).parents[1] / "data" / "ttir" / "3.7.1").glob("*.ttir"))
TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"|%[\w$.#-]+|[!#@^]?[\w$.-]+|[^\s\w]|\n|[ \t]+')
STRINGS = re.compile(r'"(?:[^"\\\n]|\\.)*"')
MARK = "ksinject"
PAYLOADS = (
    f'"); {MARK}(); ("',
    f"%a;{MARK}();",
    f"%{MARK}",
    f"%é{MARK}",
    f'"\\22);{MARK}();//"',
    f'"\\0A{MARK}();"',
    f'@"f(){{}} {MARK}();"',
    f'"%n%s \\5C\\22);{MARK}();"',
    f"__nv_{MARK}",
    f'"*/{MARK}();/*"',
    f'"??/{MARK}();"',
    f"#{MARK}",
    f"^{MARK}",
)
NUMBERS = ("0", "-1", "3", "33", "4194305", "2147483648", "18446744073709551616", "0x7FF", "1.0e400", "9" * 399)


def mutated(tokens: list[str], pool: list[str], rng: random.Random) -> str:
    """Tokens exchanged, doubled and dropped, lines moved, payloads wherever a token stood."""
    tokens = list(tokens)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.choice([i for i, token in enumerate(tokens) if token.strip()])
        kind = rng.random()
        if kind < 0.2:
            tokens[at] = rng.choice(PAYLOADS)
        elif kind < 0.35:  # a name, everywhere
            old, new = rng.choice([t for t in tokens if t.startswith("%")]), rng.choice((f"%{MARK}", f"%{MARK}.$-1"))
            tokens = [new if token == old else token for token in tokens]
        elif kind < 0.5:
            tokens[at] = rng.choice(NUMBERS) if re.match(r"-?\d", tokens[at]) else rng.choice(pool)
        elif kind < 0.6:
            del tokens[at]
        elif kind < 0.7:
            tokens.insert(at, rng.choice((tokens[at], rng.choice(pool), "(", "}", "<")))
        elif kind < 0.8:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            lines = "".join(tokens).split("\n")
            lines.insert(rng.randrange(len(lines)), lines[rng.randrange(len(lines))])
            tokens = TOKENS.findall("\n".join(lines))
    return "".join(tokens)


def test_damaged_ttir_is_refused_or_becomes_harmless_text() -> None:
    rng = random.Random(3)
    texts = [TOKENS.findall(path.read_text()) for path in FILES]
    pool = sorted({token for tokens in texts for token in tokens if token.strip()})
    compiled = refused = marked = 0
    for number in range(140):
        text = mutated(texts[number % len(texts)], pool, rng)
        without_locations(text)
        for read in (kernel_text.parameter_names, kernel_text._parameter_types):
            try:
                read(text)
            except ValueError:
                continue
        try:
            source = generate(text, checked=number % 4 == 0, isa=AVX512).source
        except (TtirError, UnsupportedConstruct):
            refused += 1
            continue
        compiled += 1
        marked += MARK in source
        outside = STRINGS.sub('""', source)
        assert outside.isascii()
        for found in re.finditer(rf"\w*{MARK}\w*(.)", outside):
            assert found.group(1) != "(", found.group()
    assert compiled > 15 and refused > 60 and marked > 3


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_and_strings_of_ttir_stay_what_they_are(payload: str) -> None:
    """A payload in each place whose text reaches the C++: names of values, arguments and kernels, a print's prefix."""
    name = re.sub(r"[^%\w$.\-]", "", payload) if payload.startswith("%") else "%v"
    text = payload if payload.startswith('"') else '"x"'
    symbol = payload if payload.startswith("@") else "@k"
    module = (
        f"module {{\n  tt.func public {symbol}({name}: !tt.ptr<f32>, %n: i32) {{\n"
        f"    {name}_1 = arith.addi %n, %n : i32\n"
        f"    tt.print {text} {{hex = false, isSigned = array<i32: 1>}} : {name}_1 : i32\n    tt.return\n  }}\n}}\n"
    )
    try:
        source = generate(module, isa=AVX512).source
    except TtirError:
        assert "é" in payload  # no front end prints such a name
        return
    outside = STRINGS.sub('""', source)
    assert not re.search(rf"{MARK}\w*\s*\(", outside)

"""What beside the sizes must be so for a candidate to fail: dtypes, layouts, contents, scalars, arguments left out.

Each alternative is tried at the smallest failing input; dtypes that are right there are tried a second time inside the
failing region, since their edges may differ. Called by `locate`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kernelsmith.base import Scalar
from kernelsmith.evaluate.region.line import plain_layouts
from kernelsmith.evaluate.region.runs import Runs, SpentError
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.operators.declare import Layout, ScalarSpec, TensorSpec
from kernelsmith.operators.loaded import LoadedOperator

MOST_LAYOUTS = 6
"""Layouts of a tensor beside the plain one that are tried."""
MOST_CHOICES = 3
"""Other values of a scalar that are tried."""


@dataclass(frozen=True)
class Conditions:
    """What must be so; whatever is empty does not matter, as far as it was tried."""

    words: tuple[str, ...] = ()
    """As in `dtype is float16`, `x is transposed`, `causal=True`."""
    dtypes: tuple[dict[str, str], ...] = ()
    """Dtypes under which it fails; empty: under all."""
    layouts: tuple[tuple[str, str], ...] = ()
    scalars: tuple[tuple[str, Scalar | None], ...] = ()
    ended: bool = True
    """All of it was tried."""


def conditions(op: LoadedOperator, small: Case, runs: Runs) -> Conditions:
    """What matters at `small`, where it fails. Never raises SpentError."""
    found = Conditions(words=tuple(_given(op, small)), layouts=tuple(small.layouts.items()))
    try:
        found = _with_dtypes(op, small, runs, found)
        found = _with_scalars(op, small, runs, found)
        return _with_layouts(op, small, runs, found)
    except SpentError:
        return replace(found, ended=False)


def uneven(op: LoadedOperator, inside: Case, runs: Runs, found: Conditions) -> str:
    """Dtypes, in words, that are right at the smallest failing input but fail at `inside`, away from the edges; empty
    where there are none. Raises SpentError."""
    others = [dtypes for dtypes in op.dtype_sets if found.dtypes and dtypes not in found.dtypes]
    elsewhere = [dtypes for dtypes in others if runs.wrong(inside.model_copy(update={"dtypes": dtypes}))]
    return f"at other sizes when {_dtype_words(op, elsewhere)}" if elsewhere else ""


def _given(op: LoadedOperator, small: Case) -> Iterator[str]:
    """What is special about a case from which nothing special could be dropped."""
    if small.values is not Values.NORMAL:
        yield f"{small.focus or 'the contents'} {'is' if small.focus else 'are'} {small.values}"
    for name in small.absent:
        yield f"{name} is None"
    usual = plain_layouts(op)
    for name, layout in small.layouts.items():
        if usual.get(name) != layout:
            yield f"{name} is {layout}"


def _with_dtypes(op: LoadedOperator, small: Case, runs: Runs, found: Conditions) -> Conditions:
    failing = [
        dtypes
        for dtypes in op.dtype_sets
        if dtypes == small.dtypes or runs.wrong(small.model_copy(update={"dtypes": dtypes}))
    ]
    if len(failing) == len(op.dtype_sets):
        return found
    return replace(found, words=(_dtype_words(op, failing), *found.words), dtypes=tuple(failing))


def _dtype_words(op: LoadedOperator, sets: Sequence[dict[str, str]]) -> str:
    """As in `dtype is float16 or bfloat16`, or by argument where they differ."""
    if all(len(set(one.values())) == 1 for one in sets):
        return "dtype is " + " or ".join(dict.fromkeys(next(iter(one.values())) for one in sets))
    varying = [n for n in sets[0] if len({one[n] for one in op.dtype_sets}) > 1]
    return " or ".join(" and ".join(f"{n} is {one[n]}" for n in varying) for one in sets)


def _with_scalars(op: LoadedOperator, small: Case, runs: Runs, found: Conditions) -> Conditions:
    """Scalars of a few choices whose other values are right."""
    kept: list[tuple[str, Scalar | None]] = []
    for name, value in small.scalars.items():
        spec = op.arguments[name]
        assert isinstance(spec, ScalarSpec)
        others = itertools.islice((one for one in spec.choices if one != value), MOST_CHOICES)
        tried = [runs.wrong(small.model_copy(update={"scalars": small.scalars | {name: one}})) for one in others]
        if tried and not any(tried):
            kept.append((name, value))
    words = tuple(f"{name}={value}" for name, value in kept)
    return replace(found, words=(*found.words, *words), scalars=tuple(kept))


def _with_layouts(op: LoadedOperator, small: Case, runs: Runs, found: Conditions) -> Conditions:
    """Which layouts it takes, by tensor."""
    words, layouts = list(found.words), dict(found.layouts)
    for name, spec in op.arguments.items():
        if not isinstance(spec, TensorSpec) or name in small.absent or len(spec.near) == 1:
            continue
        here = Layout(small.layouts.get(name, Layout.CONTIGUOUS))
        others = [layout for layout in spec.near if layout is not here][:MOST_LAYOUTS]
        failing = [one for one in others if runs.wrong(_laid_out(small, name, one))]
        special = f"{name} is {here}"
        if special in words and failing:
            words.remove(special)
            del layouts[name]  # no box can name several
            plain = spec.near[0]
            every = plain not in failing and len(failing) == len(others) - 1
            words.append(f"{name} is not {plain}" if every else f"{name} is {' or '.join([here, *failing])}")
        elif special not in words and not failing:
            words.append(special)
    return replace(found, words=tuple(words), layouts=tuple(layouts.items()))


def _laid_out(case: Case, name: str, layout: Layout) -> Case:
    others = {n: one for n, one in case.layouts.items() if n != name}
    return case.model_copy(update={"layouts": others if layout is Layout.CONTIGUOUS else others | {name: layout.value}})

"""The sentence about where a candidate fails, as an engineer would write it into a guard.

`wrong for N in 1025..1536 when dtype is float16, whatever M is`. Invariant: it claims no more than what was run; what
was not run is said behind it. Pure functions, called by `locate`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kernelsmith.evaluate.region.edges import Along
from kernelsmith.evaluate.region.pattern import Kind, ranges
from kernelsmith.outcome import Outcome
from kernelsmith.space import interval

_VERBS = {
    Outcome.CRASHED: "crashes",
    Outcome.TIMEOUT: "hangs",
    Outcome.MEMORY: "runs out of memory",
    Outcome.COMPILE_ERROR: "does not compile",
    Outcome.RUNTIME_ERROR: "raises an error",
    Outcome.OUT_OF_BOUNDS: "leaves its tensors",
    Outcome.MUTATED_INPUT: "changes its inputs",
    Outcome.RACE: "has a race",
    Outcome.UNINITIALIZED_READ: "reads memory that was never written",
    Outcome.INT_OVERFLOW: "overflows an index",
    Outcome.NOT_IN_PLAN: "leaves its launch plan",
}
_EXAMPLES = 5


def sentence(
    outcome: Outcome,
    smallest: Mapping[str, int],
    dims: Sequence[Along],
    when: Sequence[str],
    *,
    anywhere: Mapping[str, Collection[int]] | None = None,
    depends: Sequence[str] = (),
    uneven: str = "",
    ended: bool = True,
) -> str:
    """One sentence, without a full stop.

    Args:
        smallest: sizes of the smallest failing input.
        dims: those whose size matters.
        when: conditions beside the sizes.
        anywhere: dims whose size was found not to matter, with the sizes at which that was tried.
        depends: dims that move the edges of the others.
        uneven: where else it fails, in words.
        ended: everything that should be tried was tried.
    """
    verb = _VERBS.get(outcome, "wrong")
    if dims:
        head = _sizes(verb, dims)
    elif ended or not smallest:
        head = f"{verb} at every size tried"
    else:
        head = f"{verb} at {', '.join(f'{name}={size}' for name, size in smallest.items())} at least"
    if when:
        head += f" when {' and '.join(when)}"
    anywhere = anywhere or {}
    if anywhere:
        head += f", whatever {_listed([*anywhere])} {'is' if len(anywhere) == 1 else 'are'}"
    if uneven:
        head += f", and {uneven}"
    if depends:
        head += f"; which sizes exactly depends on {_listed(depends)}"
    return head + _tried(dims, anywhere, ended=ended)


def _sizes(verb: str, dims: Sequence[Along]) -> str:
    ruled = [one for one in dims if one.rule is not None]
    odd = [one for one in dims if one.rule is None]
    parts = [one.rule.words(one.name) for one in ruled if one.rule is not None]
    single = len(dims) == 1 and ruled and _single(ruled[0])
    head = (f"{verb} at {parts[0]} only" if single else f"{verb} for {' and '.join(parts)}") if parts else verb
    return " and ".join([head, *(_scattered(one) for one in odd)]) if ruled else f"{verb} {_scattered(odd[0])}"


def _single(one: Along) -> bool:
    rule = one.rule
    return rule is not None and rule.kind is Kind.EVERY and rule.low is not None and rule.low == rule.high and one.exact


def _scattered(one: Along) -> str:
    """Where no rule was found: what was seen."""
    wrong = [size for size, failed in one.seen.items() if failed]
    spans = [interval(low, high) for low, high in ranges(wrong)]
    shown = ", ".join(spans[:_EXAMPLES])
    example = "for example " if len(spans) > _EXAMPLES else ""
    within = f"{min(one.seen)}..{max(one.seen)}"
    return f"at {len(wrong)} of {len(one.seen)} sizes of {one.name} tried in {within}, {example}{one.name}={shown}"


def _tried(dims: Sequence[Along], anywhere: Mapping[str, Collection[int]], *, ended: bool) -> str:
    """What the claim rests on, where it is not everything."""
    parts = []
    for one in dims:
        if one.whole:
            parts.append(f"all {len(one.seen):,} sizes of {one.name} from {min(one.seen)} to {max(one.seen)} tried")
        elif one.rule is not None:
            reach = f" from {min(one.seen)}" if one.rule.low is None and min(one.seen) > one.line.low else ""
            reach += (
                f" up to {max(one.seen)}" if one.rule.high is None and max(one.seen) < one.line.declared_high else ""
            )
            parts.append(f"{len(one.seen):,} sizes of {one.name} tried{reach}")
            parts += _open_edges(one)
    parts += [f"{len(sizes)} sizes of {name} tried up to {max(sizes)}" for name, sizes in anywhere.items()]
    if not ended:
        parts.append("the time for more was up")
    return f" ({'; '.join(parts)})" if parts else ""


def _open_edges(one: Along) -> Iterator[str]:
    """Edges that were not found exactly, since time was up or legal sizes lie too far apart: between which they lie."""
    if one.rule is None or (one.ended and one.rule.kind is not Kind.EVERY):
        return
    right = sorted(size for size, failed in one.seen.items() if not failed)
    low, high = one.rule.low, one.rule.high
    if low is not None and (below := [size for size in right if size < low]) and not one.line.barren(below[-1], low):
        yield f"it begins between {one.name}={below[-1]} and {low}"
    if high is not None and (above := [size for size in right if size > high]) and not one.line.barren(high, above[0]):
        yield f"it ends between {one.name}={high} and {above[0]}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

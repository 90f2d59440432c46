"""How a target reads to a person: the table of all of them, and everything known of one, with sources as footnotes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelsmith.targets.schema import Target

WIDTH = 80
_SAYS = {
    "ready": "the device is here",
    "incomplete": "the device is here, parts of its driver are not: see `kernelsmith doctor`",
    "given up": "the device is here and hung: see `kernelsmith doctor`",
    "not allowed": "the device is here and this user may not use it: see `kernelsmith doctor`",
    "toolchain": "no such device here, but its compiler: --without-device",
    "offline": "no such device here; `kernelsmith targets install NAME` gets its compiler",
    "description only": "no such device here, and no compiler for it that can be had",
}


def table(targets: Sequence[tuple[Target, str]]) -> Iterator[str]:
    """Targets with the word for their state, by family; below, what the words mean."""
    name, state = (max(map(len, cells), default=0) for cells in ((t.name for t, _ in targets), (w for _, w in targets)))
    groups: dict[str, list[tuple[Target, str]]] = {}
    for target, word in targets:
        groups.setdefault(target.family or "others", []).append((target, word))
    for family in sorted(groups, key=lambda family: (family == "others", family)):
        yield family
        for target, word in groups[family]:
            head = f"  {target.name:{name}}  {word:{state}}  "
            yield from textwrap.wrap(head + target.summary, WIDTH, subsequent_indent=" " * len(head))
    yield ""
    for word in dict.fromkeys(word for _, word in targets):
        yield from _wrapped(f"{word}: {_SAYS.get(word, 'cards cannot be chosen so')}", "", "  ")


def page(target: Target, state: str) -> Iterator[str]:
    """Everything known of one target."""
    yield f"{target.name}: {target.summary}"
    yield from _wrapped(f"{state}: {_SAYS.get(state, 'cards cannot be chosen so')}", "", "  ")
    notes: dict[str, int] = {}
    data = target.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for name in ("name", "summary", "sources", "lint", "knowledge", "notes"):
        data.pop(name, None)
    yield from _rows(data, "", target.sources, notes)
    for construct, rule in target.lint.items():
        yield from ["", f"{rule.level}: {construct.value} [{notes.setdefault(rule.source, len(notes) + 1)}]"]
        yield from _wrapped(rule.says, "  ", "  ")
        yield from _wrapped(rule.instead, "  instead: ", "  ") if rule.instead else ()
    if target.knowledge:
        yield from ["", "prompts: " + ", ".join(f"knowledge/{name}.md" for name in target.knowledge)]
    yield from ["", "read in"] if notes else []
    for source, number in notes.items():
        yield from _wrapped(source, f"  [{number}] ", "      ")


def _rows(data: Mapping[str, Any], above: str, sources: Mapping[str, str], notes: dict[str, int]) -> Iterator[str]:
    """Facts with the numbers of their sources, tables after the rest."""
    plain = {key: value for key, value in data.items() if not isinstance(value, dict)}
    if above and plain:
        yield from ["", above.rstrip(".")]
    for key, value in plain.items():
        source = sources.get(above + key)
        mark = f" [{notes.setdefault(source, len(notes) + 1)}]" if source else ""
        yield from _wrapped(f"{_shown(value)}{mark}", f"  {key}: " if above else f"{key}: ", "    ")
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _rows(value, f"{above}{key}.", sources, notes)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,.12g}" if isinstance(value, int | float) else str(value)


def _wrapped(text: str, first: str, later: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )

"""Numeric search: the same kernel with other numbers in `@triton.autotune(configs=[...])`.

The judge measures every configuration that a candidate lists on every workload and says what each took. So a step here
is a new list: the winners, and the configurations that a surrogate of all times so far finds most promising
(`surrogate`), in the space around the winners: each power of two from a sixteenth to sixteen times its value, within
the device's limits. What failed is known as well. Invariant: text and syntax trees only; a module that is not
understood is left alone. Called by `propose.offline`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.base import Scalar
from kernelsmith.model import ConfigChoice, ConfigTime
from kernelsmith.proposal import Trial
from kernelsmith.propose.surrogate import Point, Space, suggest

Number = int | float | bool | str
MAX_NEW = 8
"""New configurations per kernel and step."""
MAX_WINNERS = 3
LARGEST_BLOCK = 1 << 16
REACH = 16
"""How far from a winner's number the others may lie, as a factor."""
SMALLEST_DOT = 16
"""Smallest side of a block in `tl.dot` on the common devices."""
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
MOST = {"num_warps": 32, "num_stages": 8}
"""Options that are searched as well, where the device heeds them, and their largest values."""


@dataclass(frozen=True)
class Config:
    """One `triton.Config`: the constants of the kernel and the launch options."""

    constants: tuple[tuple[str, Number], ...]
    options: tuple[tuple[str, int], ...] = ()

    def code(self) -> str:
        constants = ", ".join(f'"{name}": {value!r}' for name, value in self.constants)
        return ", ".join([f"{{{constants}}}", *(f"{name}={value}" for name, value in self.options)])

    def key(self, useless: frozenset[str]) -> Config:
        """What distinguishes it on a device: without the options that change nothing and those at their default."""
        kept = tuple((n, v) for n, v in sorted(self.options) if n not in useless and v != _DEFAULTS.get(n))
        return Config(tuple(sorted(self.constants)), kept)


_DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
"""Of `triton.Config`."""


@dataclass(frozen=True)
class Tuner:
    """One autotuned kernel in a module's text."""

    kernel: str
    start: int
    end: int
    """Where the expression of `configs` stands, in bytes of the UTF-8 text."""
    configs: tuple[Config, ...] | None
    """None: not a list that can be read without running it."""


def tuners(source: str) -> tuple[Tuner, ...]:
    """The autotuned kernels of a module whose configurations may be replaced."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    offsets = _line_offsets(source)
    names = _constants(tree)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        for expression in filter(None, map(_configs_of, node.decorator_list)):
            if "pre_hook" in ast.unparse(expression) or expression.end_lineno is None:
                continue
            start = offsets[expression.lineno - 1] + expression.col_offset
            end = offsets[expression.end_lineno - 1] + (expression.end_col_offset or 0)
            found.append(Tuner(node.name, start, end, _read_configs(expression, names)))
    return tuple(found)


def pruned(source: str, useless: Sequence[str]) -> str:
    """The module without configurations that differ only in options which change nothing on the device."""
    ignored = frozenset(useless)
    changes = []
    for tuner in tuners(source):
        distinct = {config.key(ignored): config for config in reversed(tuner.configs or ())}
        if tuner.configs is not None and len(distinct) < len(tuner.configs):
            changes.append((tuner, _listing(reversed(distinct.values()), source)))
    return _replaced(source, changes)


Known = Mapping[Config, Mapping[str, float | None]]
"""Of configurations by their keys: milliseconds by workload, None where it failed; nothing where it was listed and
never heard of, because the time was up."""


class NumericSearch:
    """Remembers what every configuration of every module took."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._measured: dict[tuple[str, str], dict[Config, dict[str, float | None]]] = {}
        """By module and kernel."""

    def step(self, trial: Trial, limits: Mapping[str, Scalar], useless: Sequence[str]) -> str | None:
        """The module with its winners and what to measure next; None when there is nothing left."""
        source, evaluation = trial.candidate.source, trial.evaluation
        if evaluation is None or not evaluation.choices:
            return None
        winners = _winners(choice for workload in evaluation.choices for choice in workload.configs)
        found = tuners(source)
        family = _replaced(source, [(tuner, "[]") for tuner in found])
        ignored = frozenset(useless)
        changes, anything_new = [], False
        for tuner in found:
            won = list({config.key(ignored): config for config in winners.get(tuner.kernel, ())}.values())
            known = self._measured.setdefault((family, tuner.kernel), {})
            for config in (*(tuner.configs or ()), *won):
                known.setdefault(config.key(ignored), {})
            _learn(known, evaluation.tried, tuner.kernel, ignored)
            fresh = self._fresh(won, known, ignored, _bounds(source, limits))
            for config in fresh:
                known.setdefault(config.key(ignored), {})
            anything_new |= bool(fresh)
            if won:  # losers are not measured again
                changes.append((tuner, _listing((*won, *fresh), source)))
        return _replaced(source, changes) if anything_new else None

    def _fresh(
        self, winners: Sequence[Config], known: Known, useless: frozenset[str], bounds: tuple[int, int]
    ) -> list[Config]:
        """What to list beside the winners, none of which has been listed before."""
        if not winners:
            return []
        around, measured = Around.of(winners, useless, bounds), _together(known)
        if not measured:  # nothing but the winner is told: it is where to begin
            measured[winners[0].key(useless)] = 1.0
        points = {point: time for config, time in measured.items() if (point := around.point(config)) is not None}
        unheard = {point for config in known if (point := around.point(config)) is not None} - points.keys()
        return [around.config(point) for point in suggest(around.space, points, MAX_NEW, self._seed, unheard)]


@dataclass(frozen=True)
class Around:
    """The space around winners, as indices into the values of each parameter that is searched."""

    like: Config
    """The most frequent winner: what is not searched stays as it has it."""
    names: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    space: Space
    useless: frozenset[str]

    @classmethod
    def of(cls, winners: Sequence[Config], useless: frozenset[str], bounds: tuple[int, int]) -> Around:
        like = winners[0]
        axes: dict[str, tuple[int, ...]] = {}
        for name, value in like.constants:
            if _power(value) is not None:
                known = {v for c in winners for n, given in c.constants if n == name and (v := _power(given))}
                axes[name] = _powers(min(known), max(known), bounds[0] if min(known) >= bounds[0] else 1)
        for name, option in like.options:
            if name in MOST and name not in useless:
                every = {v for v in range(1, MOST[name] + 1) if name != "num_warps" or _power(v)}
                axes[name] = tuple(sorted({*every, option}))
        names, values = tuple(axes), tuple(axes.values())
        constants = {name for name, _ in like.constants}

        def allowed(point: Point) -> bool:
            sides = sorted(v[i] for n, v, i in zip(names, values, point, strict=True) if n in constants)[-2:]
            return math.prod(sides) <= bounds[1]

        return cls(like, names, values, Space(tuple(map(len, values)), allowed), useless)

    def point(self, config: Config) -> Point | None:
        """Where a configuration lies; None if it lies outside, or differs in what is not searched."""
        given = dict(config.constants) | {n: _DEFAULTS.get(n, v) for n, v in self.like.options} | dict(config.options)
        other = dict(self.like.key(self.useless).constants)
        if any(given.get(name) != value for name, value in other.items() if name not in self.names):
            return None
        try:
            return tuple(axis.index(int(given[n])) for n, axis in zip(self.names, self.values, strict=True))
        except (KeyError, ValueError):
            return None

    def config(self, point: Point) -> Config:
        chosen = {n: axis[i] for n, axis, i in zip(self.names, self.values, point, strict=True)}
        return Config(
            tuple((name, chosen.get(name, value)) for name, value in self.like.constants),
            tuple((name, chosen.get(name, value)) for name, value in self.like.options),
        )


def _learn(
    known: dict[Config, dict[str, float | None]],
    tried: Iterable[ConfigTime],
    kernel: str,
    useless: frozenset[str],
) -> None:
    """Add what a verdict says of this kernel's configurations."""
    for one in tried:
        config = _parsed(one.text)
        if one.kernel.split("#")[0] == kernel and config is not None:
            known.setdefault(config.key(useless), {})[one.workload] = one.ms


def _together(known: Known) -> dict[Config, float | None]:
    """One figure for each configuration that was heard of: the geometric mean over workloads of its time over the best
    one there; None where it failed on one."""
    best: dict[str, float] = {}
    for times in known.values():
        for workload, ms in times.items():
            if ms is not None:
                best[workload] = min(ms, best.get(workload, ms))
    together: dict[Config, float | None] = {}
    for config, times in known.items():
        ratios = [math.log(ms / best[workload]) for workload, ms in times.items() if ms is not None]
        if times:
            together[config] = math.exp(sum(ratios) / len(ratios)) if len(ratios) == len(times) else None
    return together


def _bounds(source: str, limits: Mapping[str, Scalar]) -> tuple[int, int]:
    """Smallest value of a constant, and the most elements of a block."""
    elements = limits.get("tile_elements")
    return SMALLEST_DOT if "tl.dot" in source else 1, elements if isinstance(elements, int) else 1 << 20


def _power(value: object) -> int | None:
    """The number, if it is a power of two."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    return value if plain and isinstance(value, int) and value > 0 and not value & (value - 1) else None


def _powers(low: int, high: int, smallest: int) -> tuple[int, ...]:
    """The powers of two from a sixteenth of the one to sixteen times the other."""
    first, last = max(smallest, low // REACH), min(LARGEST_BLOCK, high * REACH)
    return tuple(1 << bits for bits in range(32) if first <= 1 << bits <= last)


def _winners(choices: Iterable[ConfigChoice]) -> dict[str, tuple[Config, ...]]:
    """The winning configurations of each kernel, those of most workloads first."""
    counts: dict[str, dict[Config, int]] = {}
    for choice in choices:
        config = _parsed(choice.text)
        if config is not None:
            kernel = counts.setdefault(choice.kernel.split("#")[0], {})
            kernel[config] = kernel.get(config, 0) + 1
    return {
        kernel: tuple(sorted(counted, key=lambda c: -counted[c])[:MAX_WINNERS]) for kernel, counted in counts.items()
    }


# ---------------------------------------------------------------- reading and writing the module's text


def _configs_of(decorator: ast.expr) -> ast.expr | None:
    """The `configs` argument of `@triton.autotune(...)`."""
    if not isinstance(decorator, ast.Call) or not ast.unparse(decorator.func).endswith("autotune"):
        return None
    return next(
        (k.value for k in decorator.keywords if k.arg == "configs"), decorator.args[0] if decorator.args else None
    )


def _parsed(text: str) -> Config | None:
    """A configuration from its text in a verdict: `{'BLOCK': 1024}, num_warps=4`."""
    try:
        call = ast.parse(f"Config({text})", mode="eval").body
    except SyntaxError:
        return None
    return _config(call, {})


def _read_configs(node: ast.expr, names: Mapping[str, object]) -> tuple[Config, ...] | None:
    """The configurations that an expression makes; None if that takes more than reading."""
    if isinstance(node, ast.Name) and isinstance(names.get(node.id), ast.expr):
        return _read_configs(_as_expression(names[node.id]), {k: v for k, v in names.items() if k != node.id})
    if isinstance(node, ast.List | ast.Tuple):
        found = [_config(element, names) for element in node.elts]
        return None if None in found else tuple(c for c in found if c is not None)
    if isinstance(node, ast.ListComp):
        found = [_config(node.elt, scope) for scope in _scopes(node.generators, names)]
        return None if None in found or not found else tuple(c for c in found if c is not None)
    return None


def _as_expression(value: object) -> ast.expr:
    assert isinstance(value, ast.expr)
    return value


def _scopes(generators: Sequence[ast.comprehension], names: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The names of every turn of a comprehension without conditions."""
    if not generators:
        yield names
        return
    first, rest = generators[0], generators[1:]
    values = _value(first.iter, names)
    if first.ifs or not isinstance(values, list | tuple):
        return
    for value in values:
        bound: dict[str, object]
        if isinstance(first.target, ast.Name):
            bound = {first.target.id: value}
        elif isinstance(first.target, ast.Tuple) and isinstance(value, list | tuple):
            targets = [t.id if isinstance(t, ast.Name) else "" for t in first.target.elts]
            bound = dict(zip(targets, value, strict=False))
        else:
            return
        yield from _scopes(rest, {**names, **bound})


def _config(node: ast.expr, names: Mapping[str, object]) -> Config | None:
    """One call of `triton.Config`."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("Config") or len(node.args) > 1:
        return None
    mapping = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "kwargs"), None)
    if not isinstance(mapping, ast.Dict):
        return None
    constants = []
    for name, value in zip(mapping.keys, mapping.values, strict=True):
        read = _value(value, names)
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str) or not isinstance(read, Number):
            return None
        constants.append((name.value, read))
    options = {k.arg: _value(k.value, names) for k in node.keywords if k.arg in _OPTIONS}
    if not all(isinstance(value, int) for value in options.values()):
        return None
    return Config(tuple(constants), tuple((n, v) for n, v in options.items() if n and isinstance(v, int)))


def _value(node: ast.expr, names: Mapping[str, object]) -> object:
    """A literal with names in it; None for anything that would have to be run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element, names) for element in node.elts]
    if isinstance(node, ast.Name):
        known = names.get(node.id)
        return _value(known, {k: v for k, v in names.items() if k != node.id}) if isinstance(known, ast.expr) else known
    return None


def _constants(tree: ast.Module) -> dict[str, object]:
    """Expressions that the module's top level gives a name to."""
    names: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = node.value
    return names


def _listing(configs: Iterable[Config], source: str) -> str:
    name = "triton.Config" if "triton.Config" in source else "Config"
    lines = "".join(f"        {name}({config.code()}),\n" for config in configs)
    return f"[\n{lines}    ]"


def _replaced(source: str, changes: Sequence[tuple[Tuner, str]]) -> str:
    data = source.encode()
    for tuner, text in sorted(changes, key=lambda change: -change[0].start):
        data = data[: tuner.start] + text.encode() + data[tuner.end :]
    return data.decode()


def _line_offsets(source: str) -> list[int]:
    """Where each line begins, in bytes; lines as Python's parser counts them."""
    offsets = [0]
    for line in source.encode().split(b"\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    return offsets

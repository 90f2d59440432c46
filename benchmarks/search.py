"""The search itself: best speed-up against trials, seconds and tokens, for a fixed set of operators and several seeds.

    python -m benchmarks.search [--seeds 3] [--max-time 60s] [--max-trials 12] [--replies DIR] [NAME ...]

Ways to search: `offline`; `random`, the same starting kernels with random numbers in place of the numeric search; and
where DIR/NAME holds recorded replies of a model, `replies`, in the order in which they were given, each with the
feedback of those before, beside `best of n`, the same replies in a random order, as if nobody had been told anything.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelsmith import config
from kernelsmith.commands.common import operator_ref
from kernelsmith.proposal import Reply, Usage
from kernelsmith.propose import Proposer, Request
from kernelsmith.propose.numeric import Config, Known, NumericSearch
from kernelsmith.propose.offline import OfflineProposer
from kernelsmith.propose.replay import ReplayProposer
from kernelsmith.records import TrialJudged, TuneRecord
from kernelsmith.session import Listener, Order, start

ROOT = Path(__file__).parents[1]
OPERATORS = ("softmax", "layer_norm", "swiglu", "cross_entropy")
POINTS = (1, 2, 3, 5, 8, 12, 20)
"""Trials after which the best is shown."""


class RandomNumbers(NumericSearch):
    """As many new configurations at every step as the search takes, drawn without a look at who won."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._dice = random.Random(seed)

    def _fresh(
        self, winners: Sequence[Config], known: Known, useless: frozenset[str], bounds: tuple[int, int]
    ) -> list[Config]:
        drawn: dict[Config, Config] = {}
        for _ in range(200):
            if not winners or len(drawn) == len(super()._fresh(winners, known, useless, bounds)):
                break
            config = self._drawn(self._dice.choice(list(winners)))
            if config.key(useless) not in known:
                drawn[config.key(useless)] = config
        return list(drawn.values())

    def _drawn(self, like: Config) -> Config:
        """Every power of two replaced by any other between 1 and 65,536."""
        powers = tuple(
            (name, 2 ** self._dice.randrange(17) if isinstance(value, int) and not isinstance(value, bool) else value)
            for name, value in like.constants
        )
        return Config(powers, like.options)


class RandomProposer(OfflineProposer):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._search = RandomNumbers(seed)


class Shuffled:
    """Recorded replies in another order, whatever has been judged."""

    priced = True

    def __init__(self, folder: Path, seed: int) -> None:
        self.spec = f"shuffled:{folder}"
        self._inner = ReplayProposer(folder)
        self._order = list(range(1, 1 + sum(1 for _ in folder.glob("*.md"))))
        random.Random(seed).shuffle(self._order)

    def reserve(self, request: Request) -> Usage:
        return Usage()

    def propose(self, request: Request) -> Reply | None:
        if not self._order:
            return None
        brief = request.brief.model_copy(update={"trial": self._order.pop(0)})
        return self._inner.propose(request.model_copy(update={"brief": brief}))


@dataclass
class Curve:
    """One run: the best score after each trial, with what had been used by then."""

    best: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, record: TuneRecord) -> None:
        if isinstance(record, TrialJudged):
            before = self.best[-1] if self.best else 0.0
            self.best.append(max(before, record.score or 0.0))
            self.seconds.append(record.spent.seconds)
            self.tokens.append(record.spent.usage.tokens)

    def at(self, trials: int) -> float | None:
        return self.best[trials - 1] if trials <= len(self.best) else None


def ways(name: str, seed: int, replies: Path | None) -> Iterator[tuple[str, Proposer]]:
    yield "offline", OfflineProposer(seed)
    yield "random", RandomProposer(seed)
    folder = replies / name if replies is not None else None
    if folder is not None and folder.is_dir():
        yield "replies", ReplayProposer(folder)
        yield "best of n", Shuffled(folder, seed)


def run(name: str, proposer: Proposer, seed: int, limits: Mapping[str, object]) -> Curve:
    curve = Curve()
    with tempfile.TemporaryDirectory() as runs:
        settings = config.load({**limits, "runs": Path(runs), "device": "cpu", "width": 1})
        operator = operator_ref(ROOT / "examples" / f"{name}.py", None, None, settings)
        order = Order(operator=operator, settings=settings, seed=seed)
        start(order, Listener(curve.add, threading.Event()), (proposer,))
    return curve


def row(name: str, way: str, curves: Sequence[Curve]) -> str:
    """Medians over the seeds."""
    cells = []
    for trials in POINTS:
        found = [value for curve in curves if (value := curve.at(trials)) is not None]
        cells.append(f"{statistics.median(found):6.2f}" if len(found) == len(curves) else "     -")
    last = statistics.median(curve.best[-1] if curve.best else 0.0 for curve in curves)
    seconds = statistics.median(curve.seconds[-1] if curve.seconds else 0.0 for curve in curves)
    tokens = statistics.median(curve.tokens[-1] if curve.tokens else 0 for curve in curves)
    return f"{name:14} {way:10} {''.join(cells)} | {last:5.2f} after {seconds:4.0f} s, {tokens:,.0f} tokens"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"examples; by default {', '.join(OPERATORS)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-time", default="60s")
    parser.add_argument("--max-trials", type=int, default=12)
    parser.add_argument("--replies", type=Path, default=ROOT / "examples" / "replies")
    asked = parser.parse_args()
    limits = {"max_time": asked.max_time, "max_trials": asked.max_trials}
    print(f"{'operator':14} {'way':10} {''.join(f'{n:6}' for n in POINTS)} | best score (times the best baseline)")
    for name in asked.names or OPERATORS:
        found: dict[str, list[Curve]] = {}
        for seed in range(asked.seeds):
            for way, proposer in ways(name, seed, asked.replies):
                found.setdefault(way, []).append(run(name, proposer, seed, limits))
        for way, curves in found.items():
            print(row(name, way, curves), flush=True)


if __name__ == "__main__":
    main()

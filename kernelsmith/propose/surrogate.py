"""Which configurations to measure next: a Gaussian process over the logarithm of time, and expected improvement.

Configurations are points whose coordinates are steps along each parameter's values (powers of two are one step apart),
times are logarithms, and a configuration that failed counts as slower than the slowest. A batch is chosen one by one,
each as if the ones before it had come out as predicted (the "kriging believer" of Ginsbourger et al. 2010). Sources of
the ideas: Bayesian optimisation in kernel_tuner (Willemsen et al., arXiv 2111.14991), the pattern search and surrogate
filter of Helion. Pure and deterministic; numpy is loaded when it is used. Called by `numeric` and by its benchmark.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Point = tuple[int, ...]
"""Indices into the values of each parameter."""

POOL = 4096
"""Points that are looked at for every choice; a larger space is looked at around its best and at random."""
NEAR = 5
"""Best points whose neighbours are in the pool of a large space."""
LEAST = 2e-4
"""Expected improvement, as a logarithm, below which another measurement is not worth its time."""
FAILED = math.log(2)
"""How much slower than the slowest a failed configuration counts."""
_SCALES = (0.7, 1.5, 3.0, 6.0)
"""Lengths, in steps, over which times are alike; the likeliest is taken."""
_NOISES = (1e-4, 1e-2)
"""Of the logarithm of time, as a share of its variance."""


@dataclass(frozen=True)
class Space:
    """Every combination of values that is allowed."""

    sizes: tuple[int, ...]
    """Number of values of each parameter, in order."""
    allowed: Callable[[Point], bool] = lambda _: True

    def all(self) -> Iterable[Point]:
        return filter(self.allowed, itertools.product(*map(range, self.sizes)))

    @property
    def count(self) -> int:
        """Combinations, allowed or not."""
        return math.prod(self.sizes)

    def neighbours(self, point: Point, reach: int = 1) -> list[Point]:
        """Allowed points that differ by at most `reach` steps in all."""
        found = []
        for steps in itertools.product(range(-reach, reach + 1), repeat=len(point)):
            other = tuple(p + s for p, s in zip(point, steps, strict=True))
            inside = all(0 <= o < n for o, n in zip(other, self.sizes, strict=True))
            if 0 < sum(map(abs, steps)) <= reach and inside and self.allowed(other):
                found.append(other)
        return found


def suggest(
    space: Space,
    measured: Mapping[Point, float | None],
    count: int,
    seed: int,
    unheard: Collection[Point] = (),
) -> list[Point]:
    """At most `count` points that were not measured, the most promising first; none where no gain is to be expected.

    `measured` holds times, in any unit, and None for what failed; `unheard` was listed and tells nothing. One time
    alone says no more than where to begin, so that its neighbours are next; none at all, that points should lie far
    from one another.
    """
    dice = random.Random(seed)
    pool = [p for p in _pool(space, measured, dice) if p not in measured and p not in unheard]
    times = {point: time for point, time in measured.items() if time is not None}
    if not times:
        return _spread(pool, [*measured, *unheard], count)
    if len(times) == 1:
        (begin,) = times
        dice.shuffle(pool)
        return sorted(pool, key=lambda point: _apart(point, begin))[:count]
    model = _fitted(measured, times)
    chosen: list[Point] = []
    while pool and len(chosen) < count:
        gain, best = max(zip(model.improvement(pool), pool, strict=True))
        if gain < LEAST:
            break
        chosen.append(best)
        pool.remove(best)
        model = model.believing(best)
    return chosen


def _pool(space: Space, measured: Mapping[Point, float | None], dice: random.Random) -> list[Point]:
    if space.count <= POOL:
        return list(space.all())
    times = sorted((time, point) for point, time in measured.items() if time is not None)
    near = {other for _, point in times[:NEAR] for other in space.neighbours(point, 2)}
    drawn = {tuple(dice.randrange(n) for n in space.sizes) for _ in range(POOL // 4)}
    return sorted(near | set(filter(space.allowed, drawn)))


def _spread(pool: Sequence[Point], known: Sequence[Point], count: int) -> list[Point]:
    """Points each as far as can be from those that are known or chosen before it; from nothing, the middle first."""
    chosen: list[Point] = []
    left = list(pool)
    while left and len(chosen) < count:
        others = [*known, *chosen]
        if others:
            far = max(left, key=lambda p: (min(_apart(p, other) for other in others), p))
        else:
            middle = [sum(axis) / len(left) for axis in zip(*left, strict=True)]
            far = min(left, key=lambda p: (sum(abs(a - m) for a, m in zip(p, middle, strict=True)), p))
        chosen.append(far)
        left.remove(far)
    return chosen


def _apart(one: Point, other: Point) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class _Model:
    """A Gaussian process with a Matern 5/2 kernel, fitted to standardised logarithms of time."""

    points: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    spread: float
    """Standard deviation of the logarithms."""
    scale: float
    noise: float

    def covariance(self) -> np.ndarray[Any, Any]:
        import numpy as np

        return _matern(self.points, self.points, self.scale) + self.noise * np.eye(len(self.points))

    def improvement(self, pool: Sequence[Point]) -> list[float]:
        """Expected improvement on the best time, at each point, as a logarithm."""
        import numpy as np

        at = np.array(pool, dtype=float)
        factor = np.linalg.cholesky(
            _matern(self.points, self.points, self.scale) + self.noise * np.eye(len(self.points))
        )
        across = _matern(at, self.points, self.scale)
        weights = np.linalg.solve(factor.T, np.linalg.solve(factor, self.values))
        mean = across @ weights
        explained = np.linalg.solve(factor, across.T)
        deviation = np.sqrt(np.maximum(1e-12, 1.0 - (explained**2).sum(axis=0)))
        z = (self.values.min() - mean) / deviation
        density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in z])
        return [float(value) for value in self.spread * deviation * (z * below + density)]

    def believing(self, point: Point) -> _Model:
        """As if this point had been measured and had come out as predicted."""
        import numpy as np

        at = np.array([point], dtype=float)
        value = _matern(at, self.points, self.scale) @ np.linalg.solve(self.covariance(), self.values)
        return _Model(np.vstack([self.points, at]), np.append(self.values, value), self.spread, self.scale, self.noise)


def _fitted(measured: Mapping[Point, float | None], times: Mapping[Point, float]) -> _Model:
    """With the length and noise under which the measurements are likeliest."""
    import numpy as np

    slowest = math.log(max(times.values())) + FAILED
    points = np.array(list(measured), dtype=float)
    logs = np.array([slowest if time is None else math.log(time) for time in measured.values()])
    spread = float(logs.std()) or 1.0
    values = (logs - logs.mean()) / spread
    fits = [_Model(points, values, spread, scale, noise) for scale in _SCALES for noise in _NOISES]
    return max(fits, key=_likelihood)


def _likelihood(model: _Model) -> float:
    import numpy as np

    factor = np.linalg.cholesky(model.covariance())
    whitened = np.linalg.solve(factor, model.values)
    return float(-0.5 * whitened @ whitened - np.log(np.diag(factor)).sum())


def _matern(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], scale: float) -> np.ndarray[Any, Any]:
    import numpy as np

    apart = np.sqrt(((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)) * (math.sqrt(5) / scale)
    result: np.ndarray[Any, Any] = (1 + apart + apart**2 / 3) * np.exp(-apart)
    return result

"""What a verdict rests on: the cases that were run, how near the answers came, what repeats and sweeps showed, which
versions did it, and what was left out. Frozen records; no torch.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Self

from pydantic import Field, model_validator

from kernelsmith.base import Frozen
from kernelsmith.outcome import Level, Outcome
from kernelsmith.space import Region, RegionStatus, Sweep, Where
from kernelsmith.tolerances import Policy


class Mismatch(Frozen):
    """The worst wrong element of one output."""

    output: int
    index: tuple[int, ...]
    got: float | int | bool | str
    expected: float | int | bool | str
    bound: float
    """Largest allowed absolute difference at this element."""
    count: int
    """Wrong elements in this output."""
    total: int


class CaseTried(Frozen):
    """One case, and what came of it."""

    where: Where
    runs: int = Field(gt=0)
    """Real calls and replays whose answers were compared."""
    outcome: Outcome = Outcome.PASSED


class Rule(StrEnum):
    """What an answer is held to, unless a team's tolerance policy says it."""

    MEASURED = "measured"
    """How far an honest kernel may be off, measured at that input."""
    BOUND = "bound="
    """The same, widened by the operator's `bound=`."""
    EXACT = "exact"
    CHECK = "check="
    """The operator's own verdict."""


class Closeness(Frozen):
    """How near the answers for one output came to the truth, over all runs."""

    output: str
    """`output 0`, or the name of a mutated argument."""
    dtype: str
    rule: str
    """One of `Rule`, or the name of a tolerance policy."""
    share: float | None = Field(default=None, ge=0)
    """Largest distance as a share of what was allowed at that element; above 1 where it was wrong; None where the rule
    knows no distance."""
    ulp: float | None = Field(default=None, ge=0)
    """That distance in units in the last place of the dtype at the truth."""
    where: Where | None = None
    """Where that share was reached."""

    def describe(self) -> str:
        """`closest to its limit: y (float16), 2.1 ulp, 34 % of what an honest kernel may be off, at M=3, N=8209`; empty
        without a distance."""
        if self.share is None or self.ulp is None or self.where is None:
            return ""
        ulp = f"{self.ulp:.2g}" if self.ulp < 100 else f"{self.ulp:,.0f}" if self.ulp < 1e6 else f"{self.ulp:.1e}"
        head = "closest to its limit" if self.share <= 1 else "furthest beyond its limit"
        place = self.where.describe()
        return f"{head}: {self.output} ({self.dtype}), {ulp} ulp, {_share(self.share)} {allowed(self.rule)}, at {place}"


def _share(share: float) -> str:
    """`34 % of`, or `1,200 times` where that is easier to read."""
    if share >= 10:
        return f"{share:,.0f} times"
    return f"{100 * share:.2g} % of" if share < 0.1 else f"{100 * share:,.0f} % of"


def allowed(rule: str) -> str:
    """What distances are measured by, in words."""
    own = rule in (Rule.MEASURED, Rule.BOUND)
    return "what an honest kernel may be off" if own else f"what the policy `{rule}` allows"


class Swept(Frozen):
    """One dim walked size by size."""

    sweep: Sweep
    base: Where
    """The other dims, dtypes and layouts, and the contents."""
    step: int = Field(default=1, gt=0)
    """Sizes within a range lie so far apart: as the sweep says, or further where not all of its sizes are possible."""
    ran: tuple[tuple[int, int], ...] = ()
    """Ranges of sizes that were run, both ends included, ascending; not all of the sweep where sizes are not possible
    or the time ended."""
    wrong: tuple[tuple[int, int], ...] = ()
    """Those at which it failed."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        whole = (self.sweep.low, self.sweep.high)
        if self.step % self.sweep.step or not all(_holds(whole, one, self.sweep.step) for one in self.ran):
            raise ValueError(f"sizes were run that are not of the sweep {self.sweep}")
        if any((high - low) % self.step for low, high in (*self.ran, *self.wrong)):
            raise ValueError(f"a range does not end at one of its sizes, which lie {self.step} apart")
        if any(after[0] <= before[1] for ranges in (self.ran, self.wrong) for before, after in pairwise(ranges)):
            raise ValueError("ranges of sizes overlap or do not ascend")
        if not all(any(_holds(ran, one, self.step) for ran in self.ran) for one in self.wrong):
            raise ValueError("sizes are wrong that were not run")
        return self

    @property
    def tried(self) -> int:
        """How many sizes were run."""
        return sum((high - low) // self.step + 1 for low, high in self.ran)

    def right_wrong(self, low: int, high: int) -> tuple[int, int]:
        """How many of the sizes from `low` to `high` were run and right, and how many were wrong."""
        ran, wrong = (sum(self._within(one, low, high) for one in ranges) for ranges in (self.ran, self.wrong))
        return ran - wrong, wrong

    def _within(self, ran: tuple[int, int], low: int, high: int) -> int:
        """How many sizes of a range lie from `low` to `high`."""
        first = ran[0] + max(0, -(-(low - ran[0]) // self.step)) * self.step
        return max(0, (min(high, ran[1]) - first) // self.step + 1)


def _holds(whole: tuple[int, int], part: tuple[int, int], step: int) -> bool:
    """Whether a range lies in another one, on its grid."""
    return whole[0] <= part[0] <= part[1] <= whole[1] and (part[0] - whole[0]) % step == 0


class Rate(Frozen):
    """How many of so many runs were wrong."""

    runs: int = Field(gt=0)
    wrong: int = Field(ge=0)
    ci95: tuple[float, float]
    """Clopper-Pearson interval of the share; where no run was wrong, its upper end is the one-sided bound at 95 %,
    which the rule of three approximates.

    Runs end early once enough are wrong; the interval is that of a number fixed beforehand, which holds the one for
    runs up to the n-th wrong one. Where runs differ in how programs run, or in their inputs, the share is that of this
    mixture."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.wrong > self.runs:
            raise ValueError("no more runs are wrong than there were")
        return self

    @property
    def words(self) -> str:
        """As in `11 of 3,000 runs (0.37 %, 95 % interval 0.18 % to 0.66 %)`, after `wrong in`."""
        low, high = (f"{100 * end:.2g} %" for end in self.ci95)
        share = f"{100 * self.wrong / self.runs:.2g} %"
        return f"{self.wrong:,} of {self.runs:,} runs ({share}, 95 % interval {low} to {high})"


class Together(Rate):
    """Calls of which several were under way at once."""

    at_once: int = Field(gt=0)


class Repeats(Frozen):
    """The same calls again and again: do they always give the right answer, and always the same bits?"""

    calls: Rate | None = None
    """Real calls of the host function, one after the other."""
    replays: Rate | None = None
    """Replays of its launch plan, under every order of programs that the device offers."""
    bitwise: bool = True
    """Every run on equal inputs gave equal bits."""
    ulp: float = Field(default=0.0, ge=0)
    """Largest difference between right answers to equal inputs, in units in the last place."""
    together: tuple[Together, ...] = ()
    """Real calls of several threads, by how many at once."""

    @property
    def rate(self) -> str:
        """What the runs show about how often it is wrong; empty where there were none."""
        kinds = [(name, rate) for name, rate in (("calls", self.calls), ("replays", self.replays)) if rate is not None]
        if not kinds:
            return ""
        wrong = [rate.words.replace("runs", name, 1) for name, rate in kinds if rate.wrong]
        right = [f"{rate.runs:,} {name}" for name, rate in kinds if not rate.wrong]
        if wrong:
            return f"wrong in {' and in '.join(wrong)}" + (f", in none of {' and '.join(right)}" if right else "")
        return f"{' and '.join(right)}, none wrong: {_at_most(max(rate.ci95[1] for _, rate in kinds))}"

    @property
    def bits(self) -> str:
        """What they show about bits; empty where all were equal."""
        if self.bitwise:
            return ""
        by = f" (largest difference {self.ulp:.3g} ulp)" if self.ulp else ""
        return f"not bitwise reproducible: results differ in the last bits from run to run{by}"

    @property
    def at_once(self) -> str:
        """What calls at once show; empty where there were none."""
        wrong = [f"wrong in {one.words} with {one.at_once} at once" for one in self.together if one.wrong]
        if wrong:
            return f"calls at once: {', '.join(wrong)}"
        if not self.together:
            return ""
        most = max(self.together, key=lambda one: one.at_once)
        return f"up to {most.at_once} calls at once, none of {most.runs} wrong: {_at_most(most.ci95[1])}"


def _at_most(share: float) -> str:
    """A bound on the share of wrong runs, in words."""
    most = _rounded_down(1 / share)
    return f"fewer than 1 in {most:,} at 95 %" if most > 1 else "too few to say how seldom it may be wrong"


def _rounded_down(number: float) -> int:
    """To two digits, so that it claims no more than was shown."""
    unit = int(10.0 ** max(0, len(str(int(number))) - 2))
    return int(number) // unit * unit


class Refuted(Frozen):
    """Where a candidate is wrong, as far as that was found out."""

    smallest: Where
    """The smallest input found at which it fails."""
    regions: tuple[Region, ...] = ()
    words: str = ""
    """One sentence: `wrong for N in 1025..1536 when dtype is float16`."""
    exact: bool = False
    """Every edge of the region was confirmed by a run on both of its sides."""
    runs: int = Field(ge=0)
    """Extra runs that the search took."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if any(region.status is not RegionStatus.REFUTED for region in self.regions):
            raise ValueError("what is refuted is neither swept nor sampled")
        return self


class Evidence(Frozen):
    """What was run for one verdict. Without its seed, which candidates and the run's readable folder never see: that is
    in the store, and in the report of `check`."""

    level: Level
    dims: dict[str, tuple[int, int]] = {}
    """Declared range of each dim, both ends included."""
    versions: dict[str, str] = {}
    """Of Python, kernelsmith, torch, Triton and the compiler."""
    seconds: float = Field(ge=0)
    """Wall seconds that the check took."""
    cases: tuple[CaseTried, ...] = ()
    tolerance: Policy | None = None
    """What answers were held to instead of the measured bound."""
    closeness: tuple[Closeness, ...] = ()
    swept: tuple[Swept, ...] = ()
    repeats: Repeats | None = None
    refuted: Refuted | None = None
    examined: int = Field(default=0, ge=0)
    """Plans that ran with checked builds of their kernels."""
    left_out: tuple[str, ...] = ()
    """What was not covered, and why, one sentence each."""

    @property
    def closest(self) -> Closeness | None:
        """The output that came nearest to its limit, or furthest beyond it."""
        measured = [one for one in self.closeness if one.share is not None]
        return max(measured, key=lambda one: one.share or 0.0, default=None)

"""The live view of a run: rich on a terminal, plain lines elsewhere, JSON lines under `--json`.

Invariant: a view only shows; what it is told comes from one thread. Text of models and kernels is cleaned and escaped.
Used by the commands that judge.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, Self

from kernelsmith.execute import Tell
from kernelsmith.outcome import Level
from kernelsmith.proposal import Budget, Spent
from kernelsmith.records import (
    CallEnded,
    CallStarted,
    JudgingStarted,
    JudgingWaits,
    TrialJudged,
    TuneRecord,
    TuneResult,
    TuneStarted,
)
from kernelsmith.render import error_console, result_lines, spending, standing, tune_line
from kernelsmith.text import clean, line

if TYPE_CHECKING:
    from rich.console import Console, Group

SHOWN_LINES = 6
"""Latest events under the figures."""
REFRESHES_PER_SECOND = 4


PLAIN_SECONDS = 10.0
"""Between two lines about the same thing, where no terminal shows them."""


@contextmanager
def telling(*, quiet: bool) -> Iterator[Tell]:
    """Shows on stderr why an answer takes time, and how far it is: one line that changes on a terminal, new lines now
    and then elsewhere. The `Tell` may be called from any thread."""
    console = error_console()
    if quiet:
        yield lambda why: None
    elif console.is_terminal:
        from rich.text import Text

        status = console.status("")

        def show(why: str) -> None:
            status.update(Text(why))
            status.start() if why else status.stop()

        try:
            yield show
        finally:
            status.stop()
    else:
        yield _Lines(console)


class _Lines:
    """Prints what it is told, but the same thing with other figures only after a while."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ("", 0.0)

    def __call__(self, why: str) -> None:
        about = why.partition(":")[0]
        if why and (about != self._last[0] or time.monotonic() - self._last[1] > PLAIN_SECONDS):
            self._last = (about, time.monotonic())
            self._console.print(why, markup=False)


class View(Protocol):
    """Hears every record of a run, between enter and exit."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...

    def __call__(self, record: TuneRecord) -> None: ...


class _Still:
    """A view that needs neither beginning nor end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return None


class JsonView(_Still):
    """Every record as one line on stdout."""

    def __call__(self, record: TuneRecord) -> None:
        sys.stdout.write(record.model_dump_json() + "\n")
        sys.stdout.flush()


class PlainView(_Still):
    """Progress on stderr, the result on stdout."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def __call__(self, record: TuneRecord) -> None:
        if isinstance(record, TuneResult):
            sys.stdout.write(clean("\n".join(result_lines(record)) + "\n"))
            sys.stdout.flush()
        elif not self._quiet and (text := tune_line(record)):
            sys.stderr.write(clean(text) + "\n")
            sys.stderr.flush()


class RichView:
    """Figures that change in place: trials, outcomes, best speed-up, spend, workers."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.live import Live

        self._console = console or error_console()
        self._plain = PlainView(quiet=True)
        self._title = ""
        self._budget = Budget()
        self._spent = Spent()
        self._spent_at = time.monotonic()
        self._outcomes: Counter[str] = Counter()
        self._best: TrialJudged | None = None
        self._workers: dict[int, tuple[str, float]] = {}
        self._events: deque[str] = deque(maxlen=SHOWN_LINES)
        self._lock = threading.Lock()  # rich draws from a thread of its own
        self._live = Live(
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            get_renderable=self.draw,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.stop()

    def __call__(self, record: TuneRecord) -> None:
        if isinstance(record, TuneResult):
            self._live.stop()
            self._plain(record)
            return
        with self._lock:
            self._note(record)
            if text := tune_line(record):
                self._events.append(line(text, self._console.width - 2))

    def _note(self, record: TuneRecord) -> None:
        match record:
            case TuneStarted():
                title = f"{record.run}: {record.operator} on {record.target}"
                self._title, self._budget = line(title), record.budget
            case CallStarted():
                doing = f"mending trial {record.repairs}" if record.repairs else "asking"
                self._workers[record.trial] = (f"{doing} {line(record.model, 40)}", time.monotonic())
            case CallEnded():
                self._workers.pop(record.trial, None)
            case JudgingStarted():
                doing = "full check and re-measurement" if record.level is Level.FULL else "compile, check, bench"
                self._workers[record.trial] = (doing, time.monotonic())
            case JudgingWaits():
                self._workers[record.trial] = (record.why or "compile, check, bench", time.monotonic())
            case TrialJudged():
                self._workers.pop(record.trial, None)
                self._spent, self._spent_at = record.spent, time.monotonic()
                if record.level is Level.QUICK:
                    self._outcomes[record.outcome.value] += 1
                if record.best:
                    self._best = record

    def draw(self) -> Group:
        """The figures at this moment."""
        with self._lock:
            return self._figures()

    def _figures(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        spent = self._spent.model_copy(update={"seconds": self._spent.seconds + now - self._spent_at})
        best = "none yet"
        if self._best is not None:
            over = " best baseline" if self._best.estimated is None else ""
            best = f"{standing(self._best)}{over} (trial {self._best.trial})"
        figures = Table.grid(padding=(0, 2))
        figures.add_column(style="dim")
        rows = {
            "best": best,
            "spent": spending(spent, self._budget),
            "outcomes": ", ".join(f"{n} {name}" for name, n in self._outcomes.most_common()) or "none yet",
        }
        for name, value in rows.items():
            figures.add_row(name, Text(value, style="bold" if name == "best" else ""))
        for trial, (doing, since) in sorted(self._workers.items()):
            figures.add_row(f"trial {trial}", Text(f"{doing}, {now - since:.0f} s"))
        events = [Text(event, style="dim", overflow="ellipsis", no_wrap=True) for event in self._events]
        return Group(Text(self._title, style="bold"), figures, *events)


def view(*, json: bool, quiet: bool) -> View:
    """The view that fits: JSON if asked, rich on a terminal that can redraw, else plain lines."""
    if json:
        return JsonView()
    if not quiet and sys.stderr.isatty() and not error_console().is_dumb_terminal:
        return RichView()
    return PlainView(quiet=quiet)

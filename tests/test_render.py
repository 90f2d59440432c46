from __future__ import annotations

import io
from decimal import Decimal

from rich.console import Console

from kernelsmith import live
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.proposal import Budget, Move, Spent, StopReason, Usage
from kernelsmith.records import (
    CallStarted,
    JudgingStarted,
    JudgingWaits,
    KernelReport,
    Notice,
    TrialJudged,
    TuneResult,
    TuneStarted,
)
from kernelsmith.render import duration, factor, kernel_lines, result_lines, spending, table, tune_line
from kernelsmith.text import clean, line
from tests.fakes import evaluation_of

HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]bold[/red]\x9b31m\x00 \u202egnp\rover\nnext"


def judged(**changes: object) -> TrialJudged:
    values: dict[str, object] = {
        "trial": 3,
        "origin": "openai:m",
        "level": Level.QUICK,
        "outcome": Outcome.PASSED,
        "stage": Stage.BENCH,
        "message": "",
        "where": None,
        "mismatch": None,
        "score": 1.5,
        "score_ci95": (1.4, 1.6),
        "best": True,
        "kernel": "k.py",
        "spent": Spent(trials=3, usage=Usage(output_tokens=41, usd=Decimal("0.31")), seconds=61),
    }
    return TrialJudged.model_validate(values | changes)


def test_clean_leaves_words_and_takes_controls() -> None:
    assert clean(HOSTILE) == "[red]bold[/red]31m \\u202egnpover\nnext"
    assert line(HOSTILE) == "[red]bold[/red]31m \\u202egnpover next"
    assert clean("tab\tand\nnewline stay; é, 字 too") == "tab\tand\nnewline stay; é, 字 too"
    assert line("x" * 500, 10) == "x" * 9 + "…"


def test_numbers() -> None:
    assert factor(1.234, (1.2, 1.3)) == "1.23x [1.20, 1.30]"
    assert factor(None) == "-"
    assert [duration(s) for s in (0.25, 42, 61, 3600)] == ["0.2s", "42s", "1m01s", "60m00s"]
    budget = Budget(max_trials=50, max_usd=Decimal(2), max_seconds=600)
    assert spending(judged().spent, budget) == "3/50 trials · 1m01s/10m00s · 41 tokens · $0.3100/$2"


def test_lines_of_the_loop() -> None:
    assert tune_line(judged()) == "trial 3 (openai:m): passed, 1.50x [1.40, 1.60], best so far"
    failed = judged(outcome=Outcome.COMPILE_ERROR, score=None, score_ci95=None, best=False, message=HOSTILE)
    assert tune_line(failed) == "trial 3 (openai:m): compile_error: [red]bold[/red]31m \\u202egnpover next"
    assert tune_line(JudgingWaits(trial=4, why="waits for a core: 1 other")) == "trial 4 waits for a core: 1 other"
    assert tune_line(JudgingWaits(trial=4, why="")) is None
    assert tune_line(JudgingStarted(trial=1, origin="x", level=Level.QUICK)) is None


def test_result_without_a_winner_says_so() -> None:
    result = TuneResult(
        run="op-1",
        folder="runs/op-1",
        operator="op",
        target="cpu",
        stop=StopReason.FAILED,
        message="cannot connect",
        winner=None,
        goal=2.0,
        goal_met=False,
        outcomes={},
        spent=Spent(),
        budget=Budget(),
        next="kernelsmith tune --resume op-1",
        exit_code=2,
    )
    lines = result_lines(result)
    assert "cannot connect" in lines and "no correct kernel was measured" in lines
    assert lines[-2:] == ["goal 2.00x: not met", "next: kernelsmith tune --resume op-1"]


def test_verdict_for_a_person() -> None:
    text = "\n".join(kernel_lines(KernelReport.of("k.py", evaluation_of("# faster 2.0", Level.QUICK), 7)))
    hostile = kernel_lines(KernelReport.of(HOSTILE, evaluation_of("# faster 2.0", Level.QUICK), 7))
    assert hostile[0] == f"{line(HOSTILE, 300)}: passed"
    assert "k.py: passed" in text and "N=1024: 0.5 ms + 5 us host, faster\n" in text
    assert "\n      2.40x [2.35, 2.45] eager (1.2 ms)\n      2.00x" in text


def test_table_is_aligned() -> None:
    assert table([("a", "long"), ("longer", "b")]) == ["a       long", "longer  b"]


def test_live_view_shows_figures_and_no_escapes_of_the_model() -> None:
    out = io.StringIO()
    view = live.RichView(Console(file=out, width=100, force_terminal=False))
    view(
        TuneStarted(
            run="op-1",
            folder="f",
            operator="op",
            target="cpu",
            models=("m",),
            budget=Budget(max_trials=9),
            resumed=False,
        )
    )
    view(CallStarted(trial=4, model=HOSTILE, prompt="p", move=Move.REPAIR, base=3, repairs=3, reserved=Usage()))
    view(JudgingStarted(trial=5, origin="m", level=Level.FULL))
    view(JudgingWaits(trial=5, why="waits for memory: 2.1 GiB are free, 3.4 GiB needed"))
    view(judged())
    view(judged(trial=6, outcome=Outcome.TIMEOUT, score=None, score_ci95=None, best=False, message=HOSTILE))
    view(Notice(message=HOSTILE))
    Console(file=out, width=100).print(view.draw())
    text = out.getvalue()
    assert "1.50x [1.40, 1.60] best baseline (trial 3)" in text
    assert "1 passed, 1 timeout" in text and "3/9 trials" in text
    assert "trial 4" in text and "mending trial 3 [red]bold[/red]" in text
    assert "waits for memory: 2.1 GiB are free" in text
    assert not {"\x1b", "\x9b", "\x07", "\r", "\u202e"} & set(text)


def test_view_fits_the_stream() -> None:
    assert isinstance(live.view(json=True, quiet=False), live.JsonView)
    assert isinstance(live.view(json=False, quiet=False), live.PlainView), "stderr is no terminal here"

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kernelsmith import batch, session
from kernelsmith.batch import Suite, read_suite, run_suite
from kernelsmith.config import Settings
from kernelsmith.errors import UsageError
from kernelsmith.records import BatchItem
from tests.cli_with_fakes import fake_executor
from tests.fakes import code

ITEM = '[[item]]\nop = "op.py"\n'


def read(tmp_path: Path, text: str) -> Suite:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    return read_suite(path, Settings(width=7, runs=tmp_path / "runs"))


def test_defaults_items_and_settings(tmp_path: Path) -> None:
    suite = read(
        tmp_path,
        '[defaults]\nmax-time = "3m"\nmax_trials = 5\n'
        '[[item]]\nop = "sub/softmax.py"\nmax-trials = 9\nmin-speedup = 1.2\nset = {batch_size = 4}\n'
        '[[item]]\nname = "other"\nop = "op.py"\nmodel = ["offline", "openai:m"]\n',
    )
    first, second = suite.items
    assert (first.name, first.operator) == ("softmax", tmp_path / "sub/softmax.py")
    assert (first.settings.max_trials, first.settings.max_time, first.settings.width) == (9, 180, 7)
    assert (first.min_speedup, first.overrides) == (1.2, {"batch_size": 4})
    assert (second.name, second.settings.max_trials, second.min_speedup) == ("other", 5, 1.0)
    assert second.settings.model == ("offline", "openai:m")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no items"),
        ("[[item]]", "no operator"),
        (ITEM + "max-trails = 3", "max-trails"),
        ("[default]\n" + ITEM, "default"),
        ('[defaults]\nop = "x"\n' + ITEM, "op"),
        (ITEM + 'max-time = "soon"', "item 1: max-time"),
        (ITEM + "min-speedup = -1", "min-speedup"),
        ("item = 3", "no items"),
        ("[[item", "cannot be read"),
    ],
)
def test_mistakes_name_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read(tmp_path, text)
    assert "suite.toml" in caught.value.message


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Four items: a good one, one that crashes the program, one without a file, one too slow."""
    monkeypatch.setattr(session, "executor_for", fake_executor)
    (tmp_path / "op.py").write_text("def op(x): ...\n")
    for name, verdict in {"good": "faster 1.5", "slow": "faster 0.9"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.md").write_text(code(verdict))
    items = [
        ("good", "op.py", "good"),
        ("crash", "op.py", "good"),
        ("gone", "gone.py", "good"),
        ("slow", "op.py", "slow"),
    ]
    return read(
        tmp_path,
        "".join(
            f'[[item]]\nname = "{name}"\nop = "{op}"\nmodel = "replay:{tmp_path / model}"\nmax-trials = 1\n'
            for name, op, model in items
        ),
    )


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_item_ends_as_one_record(suite: Suite, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = batch.start

    def start(order: session.Order, listener: session.Listener) -> object:
        if order.settings == suite.items[1].settings and threading.current_thread().name == "flight crash":
            raise ZeroDivisionError("a bug")
        return real(order, listener)

    monkeypatch.setattr(batch, "start", start)
    done: list[BatchItem] = []
    result = run_suite(suite, jobs=jobs, emit=done.append, hear=lambda *_: None, interrupted=threading.Event())
    assert {item.name: item.ok for item in done} == {"good": True, "crash": False, "gone": False, "slow": False}
    messages = {item.name: item.message for item in done}
    assert "ZeroDivisionError" in messages["crash"] and "no such file" in messages["gone"]
    assert "1.00x is wanted" in messages["slow"]
    assert (result.ok, result.items, result.exit_code) == (1, 4, 1)


def test_interrupt_starts_no_further_item(suite: Suite) -> None:
    interrupted = threading.Event()
    done: list[BatchItem] = []

    def emit(item: BatchItem) -> None:
        done.append(item)
        interrupted.set()

    result = run_suite(suite, jobs=1, emit=emit, hear=lambda *_: None, interrupted=interrupted)
    assert len(done) == 1 and result.exit_code == 130

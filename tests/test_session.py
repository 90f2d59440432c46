"""What a run is put together from, and what ends the loading of an operator file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import ValidationError

from kernelsmith import session
from kernelsmith.config import DEFAULT_SECONDS, Settings
from kernelsmith.errors import InfrastructureError, KernelsmithError, OperatorError, StoppedError
from kernelsmith.model import OperatorInfo, OperatorRef
from kernelsmith.proposal import Budget
from kernelsmith.session import Changes, Listener
from kernelsmith.store import Store
from tests.fakes import FakeExecutor, spec


class Loading(FakeExecutor):
    """Its operator's file never finishes loading; closing ends that, as the death of a judge does."""

    def __init__(self, begun: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.begun = begun
        self.closed = threading.Event()

    def describe(self, operator: OperatorRef) -> OperatorInfo:
        self.begun()
        assert self.closed.wait(20)
        raise InfrastructureError("the judge ended")

    def close(self) -> None:
        self.closed.set()


@pytest.mark.parametrize(
    ("interrupted", "raised", "words"),
    [(True, StoppedError, "interrupted while"), (False, OperatorError, "op.py: had not been loaded after 0.3 s")],
)
def test_one_signal_or_the_runs_time_ends_the_loading_of_an_operator(
    interrupted: bool, raised: type[KernelsmithError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOAD_SECONDS", 0.1)
    event = threading.Event()
    executor = Loading(event.set if interrupted else lambda: None)
    limits = Budget(max_seconds=None if interrupted else 0.3)
    with pytest.raises(raised, match=words):
        session._loaded(OperatorRef(path="op.py"), executor, Listener(lambda _: None, event), limits)
    assert executor.closed.is_set()


def test_a_run_of_somebody_elses_spends_what_this_user_would(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        generous = Budget(max_usd=Decimal(1000), max_seconds=1e9)
        run = store.create(spec(generous, models=("offline",)))
        theirs = session._trusted(run, store, Settings(), Changes())
        assert theirs.operator.text is not None
        assert theirs.budget == Budget(max_seconds=DEFAULT_SECONDS)
        mine = session._trusted(run, store, Settings(max_trials=3), Changes())
        assert mine.budget == Budget(max_trials=3)


@pytest.mark.parametrize("width", [0, 1_000_000])
def test_no_store_says_how_many_threads_there_are(width: int) -> None:
    with pytest.raises(ValidationError):
        spec(width=width)

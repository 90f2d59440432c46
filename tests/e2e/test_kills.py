"""SIGKILL at the worst moments, one after the other, of one run: nothing is lost, paid twice or left behind."""

from __future__ import annotations

import signal
from decimal import Decimal

import pytest

from kernelsmith.outcome import Level
from kernelsmith.runs import Call, CallStatus, Run, RunStatus, TrialRecord
from kernelsmith.store import Store
from tests.e2e import kernels
from tests.e2e.kernels import reply
from tests.e2e.running import Folder, Tuning, alive, descendants, wait_until
from tests.servers import ModelServer, Received, Script, ok

PRICES = "price_input=1&price_output=10"
REPLIES = ("held back until the run is killed", reply(kernels.FAST), reply(kernels.WRONG))
"""What the n-th request is answered: three trials in all, the first of which never arrives."""
TRIALS = len(REPLIES)


def scripted(server: ModelServer, _: Received) -> Script:
    number = len(server.requests) - 1
    delay = 3600.0 if number == 0 else 0.0
    return ok(REPLIES[number], delay=delay, input_tokens=3000 + number, output_tokens=200 + number)


def state(folder: Folder) -> tuple[Run, tuple[Call, ...], tuple[TrialRecord, ...]]:
    """What a killed controller left in the store."""
    with Store.open(folder.path / "runs", create=False) as store:
        (run,) = store.runs()
        assert not store.held(run), "the lock goes with the process"
        return run, store.calls(run), store.trials(run)


def killed(tuning: Tuning, folder: Folder) -> None:
    """Kill the controller; what it started must end by itself and tidy up."""
    tuning.kill()
    wait_until(lambda: not folder.left_behind(), f"temporary files are left: {folder.left_behind()}")


def stopped(tuning: Tuning, folder: Folder) -> None:
    """Ctrl-C while a kernel is judged: nothing is paid for that could be waited for, so the run ends at once."""
    children = descendants(tuning.process.pid)
    tuning.process.send_signal(signal.SIGINT)
    result = tuning.finish()
    assert tuning.process.returncode == result["exit_code"] == 130 and tuning.errors == ""
    assert result["next"] == f"kernelsmith tune --resume {result['run']}"
    assert children and not folder.left_behind()
    wait_until(lambda: not any(map(alive, children)), "what the run started is still there")


@pytest.mark.slow
def test_a_run_survives_a_kill_at_every_stage(folder: Folder) -> None:
    with ModelServer(lambda received: scripted(server, received)) as server:
        model = server.openai_spec(options=PRICES)
        arguments = ("op.py", "--model", model, "--max-usd", "5", "--max-trials", str(TRIALS), "--width", "1")

        with folder.tune(*arguments) as tuning:  # 1: while the model is being asked
            assert server.wait_for(requests=1, seconds=300)
            killed(tuning, folder)
        run, calls, trials = state(folder)
        assert run.status is RunStatus.RUNNING and run.winner is None
        assert [call.status for call in calls] == [CallStatus.INTENT] and not trials
        reserved = calls[0].reserved

        with folder.tune("--resume", run.id) as tuning:  # 2: the reply is there, its kernel is measured
            lost = tuning.wait_for("reply", trial=1)
            assert lost["status"] == "lost" and "reservation" in lost["message"]
            tuning.wait_for("judging", trial=2)
            wait_until(folder.measuring, "the kernel is never measured", seconds=300)  # the worst moment
            killed(tuning, folder)
        run, calls, trials = state(folder)
        assert [call.status for call in calls] == [CallStatus.LOST, CallStatus.ANSWERED]
        assert calls[0].usage == reserved and calls[0].usage.usd > 0
        assert [trial.verdict for trial in trials] == [None]

        with folder.tune("--resume", run.id) as tuning:  # Ctrl-C is the polite way to the same end
            tuning.wait_for("judging", trial=2)
            stopped(tuning, folder)
        run, calls, trials = state(folder)
        assert run.status is RunStatus.INTERRUPTED and len(calls) == 2 and trials[0].verdict is None

        assert len(server.requests) == 2, "nothing is asked before the reply that is there is judged"

        with folder.tune("--resume", run.id) as tuning:
            result = tuning.finish()
            assert tuning.process.returncode == result["exit_code"] and tuning.errors == ""
            begun = [record for record in tuning.records if record["record"] == "judging" and not record["again"]]
            assert [record["level"] for record in begun] == ["quick", "quick", "full"]
        assert len(server.requests) == TRIALS, "no trial is asked for twice"
    assert not folder.left_behind()
    run, calls, trials = state(folder)
    assert run.status is RunStatus.FINISHED and result["stop"] == "trials" and result["winner"]["trial"] == 2
    assert [trial.number for trial in trials] == [2, 3]
    winner = trials[0]
    assert winner.verdict is not None and winner.verdict.level is Level.FULL and winner.verdict.evaluation.timings
    paid = [call.usage.usd for call in calls]
    answered = [Decimal(3000 + number) / 10**6 + Decimal(200 + number) / 10**5 for number in (1, 2)]
    assert paid == [reserved.usd, *answered]
    assert Decimal(str(result["spent"]["usage"]["usd"])) == sum(paid)
    assert result["spent"]["trials"] == TRIALS

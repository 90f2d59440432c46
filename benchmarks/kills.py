"""`kill -9` at random moments of real runs: does every run come to the same end, with nothing lost, paid twice or left?

    python -m benchmarks.kills [--times 50] [--seed N]

Each time a run begins whose model is a scripted server on the loopback, and one of its processes is killed: the
controller (then the run is resumed), the judge, the zygote, or a fork of it that holds a candidate or its kernels. The
run's last record, the verdict on every trial, every request and every cent must be what they are undisturbed. Exit code
1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from kernelsmith.outcome import Outcome
from kernelsmith.runs import CallStatus
from kernelsmith.sandbox import usage
from kernelsmith.store import Store
from tests.e2e import kernels
from tests.e2e.running import Folder, Tuning, alive, descendants, wait_until
from tests.servers import ModelServer, Received, Script, ok

ROLES = ("controller", "judge", "zygote", "child")
JUDGE, ZYGOTE = b"kernelsmith.evaluate.judge", b"kernelsmith.sandbox.children.server"
EXPECTED = (Outcome.PASSED, Outcome.WRONG_VALUES)
REPLIES = (kernels.reply(kernels.FAST), kernels.reply(kernels.WRONG))
LATEST = 12.0
"""Seconds after the start of a run, when its work is nearly done, until which a kill may fall."""
PRICES = "price_input=1&price_output=10"


def scripted(server: ModelServer, _: Received) -> Script:
    number = (len(server.requests) - 1) % len(REPLIES)
    return ok(REPLIES[number], input_tokens=3000 + number, output_tokens=200 + number)


def process(tuning: Tuning, role: str) -> int | None:
    """Of that role among what the run has started; None where there is none at this moment."""
    if role == "controller":
        return tuning.process.pid
    below = usage.descendants(tuning.process.pid)
    judges = [pid for pid in below if JUDGE in _words(pid)]
    zygotes = [pid for pid in below if ZYGOTE in _words(pid)]
    of_role = {
        "judge": judges,
        "zygote": [pid for pid in zygotes if any(pid in _children(other) for other in (*judges, *zygotes[:1]))],
        "child": zygotes[2:],
    }[role]
    return random.choice(of_role) if of_role else None


def _words(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def strike(tuning: Tuning, role: str, after: float) -> bool:
    """Kill a process of the role that late, or as soon as there is one; False if the run ended before."""
    time.sleep(after)
    while tuning.process.poll() is None:
        if (pid := process(tuning, role)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(0.01)
    return False


def disturbed_run(folder: Folder, model: str, role: str, after: float) -> tuple[bool, dict[str, object]]:
    """Whether the kill fell into the run, and the run's last record. A controller's run is resumed; one that had not
    begun, and so left nothing to resume, begins again."""
    limits = ("op.py", "--model", model, "--max-usd", "5", "--max-trials", str(len(REPLIES)), "--width", "1")
    with folder.tune(*limits) as tuning:
        started = descendants(tuning.process.pid)
        struck = strike(tuning, role, after)
        started += descendants(tuning.process.pid)
        tuning.process.wait()
        if role != "controller" and tuning.records:
            return struck, tuning.finish()
    wait_until(lambda: not any(map(alive, started)), "processes outlive their controller")
    with Store.open(folder.path / "runs") as store:
        runs = store.runs()
    with folder.tune("--resume", runs[0].id) if runs else folder.tune(*limits) as tuning:
        tuning.process.wait()
        return struck, tuning.finish()


def differences(folder: Folder, last: dict[str, object], requests: int) -> Iterator[str]:
    """What is otherwise than in a run that nobody disturbed."""
    with Store.open(folder.path / "runs", create=False) as store:
        (run,) = store.runs()
        calls, trials = store.calls(run), store.trials(run)
    if last.get("record") != "result" or last.get("stop") != "trials":
        yield f"it ended with {last}"
        return
    answered = [call for call in calls if call.status is CallStatus.ANSWERED]
    lost = [call for call in calls if call.status is not CallStatus.ANSWERED]
    verdicts = [trial.verdict.evaluation if trial.verdict else None for trial in trials]
    outcomes = [verdict.outcome if verdict else None for verdict in verdicts]
    expected = [EXPECTED[(call.usage.input_tokens - 3000)] for call in answered]
    if outcomes != expected:
        yield f"verdicts {[(v.outcome.value, v.message) if v else None for v in verdicts]}"
    if len(calls) != len(REPLIES) or len(lost) > 1 or not len(answered) <= requests <= len(calls):
        yield f"{len(answered)} answers and {len(lost)} lost calls of {requests} requests"
    for call in answered:
        exact = Decimal(call.usage.input_tokens) / 10**6 + Decimal(call.usage.output_tokens) / 10**5
        if call.usage.usd != exact:
            yield f"a call cost {call.usage.usd}, not {exact}"
    for call in lost:
        if call.usage != call.reserved:
            yield f"a lost call costs {call.usage}, not what was reserved"
    spent = last["spent"]
    assert isinstance(spent, dict)
    if Decimal(str(spent["usage"]["usd"])) != sum(call.usage.usd for call in calls):
        yield f"spent {spent['usage']['usd']}, but the calls say otherwise"
    if left := folder.left_behind():
        yield f"left behind: {left}"


def once(role: str, after: float) -> tuple[bool, list[str]]:
    """One run in a folder of its own."""
    with tempfile.TemporaryDirectory() as name, ModelServer(lambda received: scripted(server, received)) as server:
        folder = Folder(Path(name), kernels.OPERATOR)
        try:
            struck, last = disturbed_run(folder, server.openai_spec(options=PRICES), role, after)
            return struck, list(differences(folder, last, len(server.requests)))
        except AssertionError as error:
            return True, [str(error)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; another every time")
    arguments = parser.parse_args()
    seed = secrets.randbits(16) if arguments.seed is None else arguments.seed
    chance = random.Random(seed)
    print(f"seed {seed}", flush=True)
    fell: Counter[str] = Counter()
    wrong = 0
    for number in range(arguments.times):
        role, after = ROLES[number % len(ROLES)], chance.uniform(0, LATEST)
        struck, found = once(role, after)
        fell[role] += struck
        wrong += bool(found)
        late = "" if struck else "  too late"
        print(f"{number + 1:3}  {role:10} after {after:4.1f} s{late}  {'; '.join(found) or 'ok'}", flush=True)
    print(
        f"{sum(fell.values())} kills ({', '.join(f'{n} {role}' for role, n in fell.items())}), {wrong} runs went wrong"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

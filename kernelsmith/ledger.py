"""One run while it is being tuned: its history in memory, every change written to the store first.

Invariant: memory never knows what the disk does not. Safe as a cache, because the run's lock is held by this process.
Used by tune.py on its one thread.
"""

from __future__ import annotations

import time
from collections import Counter

from kernelsmith import budget, costs
from kernelsmith.base import digest
from kernelsmith.briefing import History, scores
from kernelsmith.model import Evaluation
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.proposal import Candidate, Prompt, Reply, Spent, StopReason, Usage
from kernelsmith.runs import Call, CallStatus, Run, RunStatus, TrialRecord, Verdict, spent
from kernelsmith.search.structure import program_id
from kernelsmith.space import Where
from kernelsmith.store import Store

NOTHING = Usage()
MOST_REVEALING = 8
"""Places at which earlier trials failed that a judge is told; each costs it a case."""
CUT = "the reply was cut off before its end: answer shorter"


class Ledger:
    """`run` must be locked by this process."""

    def __init__(self, store: Store, run: Run) -> None:
        self.store = store
        self.run = run
        self.calls: dict[int, Call] = {c.number: c for c in store.calls(run)}
        self.trials: dict[int, TrialRecord] = {t.number: t for t in store.trials(run)}
        self._began = time.monotonic() - run.seconds
        self._spent = spent(tuple(self.calls.values()), tuple(self.trials.values()), 0.0)
        self._scores: dict[int, float] = dict(scores(self.trials.values()))
        self._texts: dict[str, None] = {}
        self._programs: dict[str, list[int]] = {}
        for trial in self.trials.values():
            self._remember(trial)
        self._growth = costs.learned(store, run)
        self._costs = costs.costs(self.trials.values(), self._growth)

    # ------------------------------------------------------------ reading

    @property
    def seconds(self) -> float:
        """Wall seconds over all sessions."""
        return time.monotonic() - self._began

    @property
    def spent(self) -> Spent:
        return self._spent.model_copy(update={"seconds": self.seconds})

    @property
    def next_number(self) -> int:
        taken = (n for n, call in self.calls.items() if call.status is not CallStatus.NOTHING)
        return max([0, *taken, *self.trials]) + 1

    @property
    def ranked(self) -> list[TrialRecord]:
        """Measured or estimated trials, fastest first; of equal ones the earlier."""
        numbers = sorted(self._scores, key=lambda number: (-self._scores[number], number))
        return [self.trials[number] for number in numbers]

    @property
    def best(self) -> TrialRecord | None:
        ranked = self.ranked
        return ranked[0] if ranked else None

    @property
    def history(self) -> History:
        calls = [self.calls[number] for number in sorted(self.calls)]
        return History(self.trials.values(), self.ranked, tuple(self._texts), calls, self.spent)

    @property
    def best_evaluation(self) -> Evaluation | None:
        return self.best.evaluation if self.best else None

    @property
    def stop(self) -> StopReason | None:
        """Why to ask for no further trial, if there is a reason."""
        return budget.stop(self.run.spec.budget, self.spent, self.best_evaluation, self._costs)

    @property
    def allowance(self) -> budget.Allowance:
        return budget.allowance(self.run.spec.budget, self.spent, self._costs)

    def fits(self, model: str) -> bool:
        """Whether the time left for the search is enough for a call of this model as long as its longest so far: one
        that is cut is paid for."""
        left = budget.search_seconds(self.run.spec.budget, self.spent, self._costs)
        answered = (c for c in self.calls.values() if c.model == model and c.status is CallStatus.ANSWERED)
        return left is None or left >= max((call.usage.seconds for call in answered), default=0.0)

    @property
    def seconds_left(self) -> float | None:
        """Until the limit, the winner's share included; None without a limit."""
        limit = self.run.spec.budget.max_seconds
        return None if limit is None else max(0.0, limit - self.seconds)

    @property
    def time_is_over(self) -> bool:
        return self.seconds_left == 0

    def program(self, number: int) -> str:
        """Equal for trials whose texts differ in layout and comments alone."""
        return program_id(self.trials[number].candidate.source)

    def twins(self, number: int) -> list[TrialRecord]:
        """Other trials that are the same program, oldest first."""
        return [self.trials[other] for other in self._programs[self.program(number)] if other != number]

    def measured_once(self, trial: TrialRecord) -> bool:
        """Whether its time is that of its first measurement."""
        measured = trial.evaluation is not None and bool(trial.evaluation.timings)
        verdict = trial.verdict
        return measured and verdict is not None and verdict.seed == self.seed(trial.number, Level.QUICK)

    def compared(self, number: int, evaluation: Evaluation) -> Evaluation:
        """With a note where its launches are those of an earlier trial: a hint that nothing new was tried."""
        same = (
            other.number
            for other in self.trials.values()
            if other.number < number and other.evaluation and other.evaluation.fingerprint == evaluation.fingerprint
        )
        earlier = next(same, None) if evaluation.fingerprint else None
        if earlier is None:
            return evaluation
        note = f"it launches the same as trial {earlier}"
        return evaluation.model_copy(update={"notes": (*evaluation.notes, note)})

    def outcomes(self) -> Counter[Outcome]:
        return Counter(t.evaluation.outcome for t in self.trials.values() if t.evaluation)

    @property
    def revealing(self) -> tuple[Where, ...]:
        """Where trials failed, the latest first and each place once: the next ones may fail there too."""
        failed = sorted((t for t in self.trials.values() if t.evaluation), key=lambda t: -t.number)
        places = [t.evaluation.where for t in failed if t.evaluation and t.evaluation.where and t.evaluation.where.dims]
        plain = (place.model_copy(update={"call": 0, "replay": False}) for place in places)
        return tuple({place.model_dump_json(): place for place in plain}.values())[:MOST_REVEALING]

    def seed(self, number: int, level: Level, *, again: bool = False) -> int:
        """Of a trial's inputs: another for every trial, level and measurement, and not to be guessed without the run's
        own."""
        parts = (str(self.run.spec.seed), level.value, str(number), *(["again"] if again else []))
        return int(digest(*parts), 16) % 2**31

    # ------------------------------------------------------------ writing

    def intend(self, call: Call, prompt: Prompt) -> None:
        self.store.intend(self.run, call, prompt, self.seconds)
        self.calls[call.number] = call
        self._spend(trials=1, reserved=call.reserved)

    def answered(self, number: int, reply: Reply) -> None:
        text = reply.text.encode(errors="replace").decode()
        self.store.answered(self.run, number, reply.model_copy(update={"text": text}), self.seconds)
        changes = {"reply": text, "complete": reply.complete, "usage": reply.usage, "model": reply.model}
        self._spend(usage=reply.usage, released=self.calls[number].reserved)
        self.calls[number] = self.calls[number].model_copy(update={"status": CallStatus.ANSWERED, **changes})

    def excess(self, number: int) -> str:
        """What a reply took beyond its reservation, in words, where a limit counts it: a server that does not keep to
        what it is allowed can be held to no budget."""
        taken, reserved, limits = self.calls[number].usage, self.calls[number].reserved, self.run.spec.budget
        if not reserved.tokens:  # recorded replies, and models that count nothing
            return ""
        if limits.max_tokens is not None and taken.tokens > reserved.tokens:
            return f"it counted {taken.tokens:,} tokens where {reserved.tokens:,} were the most it was allowed"
        if limits.max_usd is not None and taken.usd > reserved.usd:
            return f"its reply cost ${taken.usd:.4f} where ${reserved.usd:.4f} was the most it was allowed"
        return ""

    def unanswered(self, number: int, status: CallStatus, message: str, *, charged: bool) -> Call:
        """A call without a reply; `charged` counts it at its reservation, as the provider may."""
        usage = self.calls[number].reserved if charged else Usage()
        self.store.unanswered(self.run, number, status, usage, message)
        lost = status is CallStatus.LOST
        self._spend(trials=0 if lost else -1, usage=usage, released=self.calls[number].reserved)
        changes = {"status": status, "usage": usage, "message": message}
        self.calls[number] = self.calls[number].model_copy(update=changes)
        return self.calls[number]

    def add(self, trial: TrialRecord) -> None:
        self.store.add_trial(self.run, trial)
        self.trials[trial.number] = trial
        self._remember(trial)
        self._spend(trials=0 if trial.number in self.calls else 1)

    def add_unparsed(self, number: int, outcome: Outcome, reason: str) -> TrialRecord:
        """A reply without a kernel, or with changes that do not apply: paid for, recorded, judged on the spot."""
        call = self.calls[number]
        candidate = Candidate(source="", origin=call.model, parents=call.parents)
        self.add(TrialRecord(number=number, candidate=candidate, repairs=call.repairs))
        evaluation = Evaluation(outcome=outcome, stage=Stage.PARSE, message=reason)
        return self.judged(number, Level.QUICK, evaluation)

    def _remember(self, trial: TrialRecord) -> None:
        self._texts[trial.candidate.id] = None
        self._programs.setdefault(program_id(trial.candidate.source), []).append(trial.number)

    def judged(
        self,
        number: int,
        level: Level,
        evaluation: Evaluation,
        repeats: int | None = None,
        *,
        again: bool = False,
    ) -> TrialRecord:
        if number in self.calls and not self.calls[number].complete and evaluation.outcome is not Outcome.PASSED:
            evaluation = evaluation.model_copy(update={"message": f"{evaluation.message}; {CUT}"})
        verdict = Verdict(level=level, seed=self.seed(number, level, again=again), evaluation=evaluation)
        trial = self.trials[number].model_copy(update={"verdict": verdict, "repeats": repeats})
        if evaluation.confinement is not None:
            confinement = evaluation.confinement.weaker(self.run.confinement)
            self.run = self.run.model_copy(update={"confinement": confinement})
        self.store.add_verdict(self.run, trial, self.seconds)
        self.trials[number] = trial
        self._scores.pop(number, None)
        if evaluation.standing is not None and repeats is None:
            self._scores[number] = evaluation.standing
        self._costs = costs.costs(self.trials.values(), self._growth)
        return trial

    def _spend(
        self, *, trials: int = 0, usage: Usage = NOTHING, reserved: Usage = NOTHING, released: Usage = NOTHING
    ) -> None:
        """Keep the sums, which the budget asks for many times per trial, without adding everything up again."""
        now = self._spent
        self._spent = Spent(
            trials=now.trials + trials,
            usage=now.usage + usage,
            reserved_usd=now.reserved_usd + reserved.usd - released.usd,
            reserved_tokens=now.reserved_tokens + reserved.tokens - released.tokens,
        )

    def finish(
        self, status: RunStatus, stop: StopReason, message: str, winner: TrialRecord | None, *, on_disk: bool = True
    ) -> None:
        """Close the books; `on_disk=False` when the store is what failed."""
        number = winner.number if winner else None
        changes = {"status": status, "stop": stop, "message": message, "winner": number, "seconds": self.seconds}
        self.run = self.run.model_copy(update=changes)
        if on_disk:
            self.store.finish(self.run)

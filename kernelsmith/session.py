"""From what a user asks for to a run that is being tuned: target, judge, proposers and store put together.

Called by the commands and by batch.py; the loop itself (tune.py) knows none of this.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from kernelsmith import files, keys, prompts, seals, targets
from kernelsmith.asking import OFFLINE
from kernelsmith.base import Frozen
from kernelsmith.briefing import History, brief
from kernelsmith.config import Settings, installed_versions
from kernelsmith.devices.choose import choose
from kernelsmith.errors import OperatorError, StoppedError, UsageError
from kernelsmith.execute import Executor
from kernelsmith.forecast import quoted
from kernelsmith.lessons.book import Lessons
from kernelsmith.model import OperatorInfo, OperatorRef
from kernelsmith.proposal import Brief, Budget, Move, Prompt
from kernelsmith.propose import Proposer, specs
from kernelsmith.quote import RunQuote
from kernelsmith.records import TuneRecord, TuneResult
from kernelsmith.runs import MOST_WIDTH, Run, RunSpec, RunStatus
from kernelsmith.search.moves import Choice
from kernelsmith.search.ports import ports
from kernelsmith.space import Sweep
from kernelsmith.store import FILE, Store
from kernelsmith.tune import Tools, tune

PROCESSOR = "cpu"
"""The target of judges that have no other device."""
LOAD_SECONDS = 60.0
"""Until an operator file must be loaded, however short a run is to be: importing torch takes long on a busy machine."""
LOOK_SECONDS = 0.1
"""Between two looks at whether loading it is still wanted."""


class Order(Frozen):
    """What one run is asked to do; `settings` brings device, models, limits and folders."""

    operator: OperatorRef
    settings: Settings
    seed: int | None = None
    start: str = ""
    hint: str = ""
    sweeps: tuple[Sweep, ...] = ()
    at_once: int | None = None
    max_workspace: int | None = None
    without_device: bool = False


class Changes(Frozen):
    """What a resumed run does differently; all else stays as it began."""

    limits: Budget = Budget()
    """Those given replace the old ones."""
    models: tuple[str, ...] = ()
    """Instead of the old ones, unless empty."""
    width: int | None = Field(default=None, ge=1, le=MOST_WIDTH)


@dataclass(frozen=True)
class Listener:
    """Who hears of a run, and who may interrupt it."""

    emit: Callable[[TuneRecord], None]
    interrupted: threading.Event


@contextmanager
def executor_for(
    device: str, settings: Settings, operator: OperatorRef, *, without_device: bool = False
) -> Iterator[tuple[targets.Target, Executor]]:
    """The target that `device` names and a judge for it, stopped at the end; in quarantine for somebody else's
    operator, whose text `operator` brings along. `without_device`: a judge on the processor. Raises UsageError where
    nothing here compiles for the target."""
    from kernelsmith.execute.local import LocalExecutor

    target = absent(device, settings) if without_device else choose(device, settings.targets)
    executor = LocalExecutor(
        PROCESSOR if without_device else target.name,
        width=settings.width,
        unsafe_no_sandbox=settings.unsafe_no_sandbox,
        targets=settings.targets,
        foreign=operator.text is not None,
    )
    try:
        yield target, executor
    finally:
        executor.close()


def absent(device: str, settings: Settings) -> targets.Target:
    """The target that a device means which need not be here. Raises UsageError where nothing here compiles for it."""
    from kernelsmith.offline.fit import chip_of, no_compiler

    target = targets.resolve(device, settings.targets)
    if target.name == PROCESSOR:
        raise UsageError(f"--without-device with --device {device}: the processor is always here", "leave it out")
    if chip_of(target) is None:
        raise no_compiler(target)
    if settings.goal is not None:
        raise UsageError(
            f"--goal {settings.goal:g} with --without-device: nothing is measured", "leave one of them out"
        )
    return target


def start(order: Order, listener: Listener, proposers: tuple[Proposer, ...] = ()) -> TuneResult:
    """Tune an operator from the beginning; `proposers` instead of the models that the settings name, for those who
    measure a search of their own."""
    settings = order.settings
    seed = secrets.randbits(31) if order.seed is None else order.seed
    proposers = proposers or _proposers(settings.model, settings.budget(), seed, settings)
    with (
        Store.open(settings.runs) as store,
        executor_for(settings.device, settings, order.operator, without_device=order.without_device) as (
            target,
            executor,
        ),
    ):
        spec = _spec(order, target.name, _loaded(order.operator, executor, listener, settings.budget()), seed)
        run = store.create(spec)
        return tune(run, _tools(settings, store, executor, proposers, target, listener, spec))


def resume(prefix: str, settings: Settings, changes: Changes, listener: Listener) -> TuneResult:
    """Go on with a run; UsageError if there is no such run or another process has it."""
    with Store.open(settings.runs, create=False) as store:
        run = store.find(prefix)
        store.lock(run)
        given = {name: value for name, value in changes.limits if value is not None}
        trusted = _trusted(run, store, settings, changes)
        spec = trusted.model_copy(
            update={
                "budget": trusted.budget.model_copy(update=given),
                "models": changes.models or run.spec.models,
                "width": changes.width or run.spec.width,
                "unsafe_no_sandbox": run.spec.unsafe_no_sandbox or settings.unsafe_no_sandbox,
            }
        )
        proposers = _proposers(spec.models, spec.budget, spec.seed, settings)
        own = settings.model_copy(update={"width": spec.width})
        with executor_for(spec.target, own, spec.operator, without_device=spec.without_device) as (target, executor):
            if _loaded(spec.operator, executor, listener, spec.budget).digest != spec.info.digest:
                raise OperatorError(
                    f"has changed since run {run.id} began",
                    "its verdicts are about the old text: start a new run, or put the file back",
                    file=spec.operator.path,
                )
            spec = spec.model_copy(update={"seal": seals.seal(spec)})
            run = store.update(run.model_copy(update={"spec": spec, "status": RunStatus.RUNNING, "stop": None}))
            tools = _tools(settings, store, executor, proposers, target, listener, spec)
            return tune(run, tools, resumed=True)


def first_prompt(order: Order) -> Prompt:
    """What the first call of a new run would send, to the letter; no model is asked."""
    return _render(order.settings)(_opening(order)[1])


def estimate(order: Order) -> RunQuote:
    """What a new run would cost; no model is asked, nothing is written, and no key is needed."""
    settings = order.settings
    environment = dict.fromkeys(specs.KEY_NAMES, "never sent") | os.environ
    proposers = _proposers(settings.model, settings.budget(), 0, settings, environment)
    spec, told = _opening(order)
    with contextlib.ExitStack() as stack:
        exists = (settings.runs / FILE).exists()
        store = stack.enter_context(Store.open(settings.runs, create=False)) if exists else None
        return quoted(spec, told, _render(settings)(told), proposers, store)


def _opening(order: Order) -> tuple[RunSpec, Brief]:
    """A new run, and what its first call would be told."""
    settings = order.settings
    with executor_for(settings.device, settings, order.operator, without_device=order.without_device) as made:
        target, executor = made
        spec = _spec(order, target.name, executor.describe(order.operator), seed=0)
        seeds = executor.seeds(order.operator)
        facts = targets.facts(target, settings.prompts)
    return spec, brief(spec, facts, History(), number=1, choice=Choice(Move.DRAFT), seeds=seeds)


def read_text(path: Path, what: str) -> str:
    """The text of a file the user named; `-` is standard input."""
    if str(path) != "-":
        return files.read_text(path, what=what)
    try:
        text = sys.stdin.read(files.MAX_TEXT_BYTES + 1).removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{what} on standard input: not UTF-8 text", "pipe a text file") from error
    if len(text) > files.MAX_TEXT_BYTES:
        raise UsageError(f"{what} on standard input: larger than {files.MAX_TEXT_BYTES:,} bytes", "give a shorter one")
    return text


def text_of(path: Path | None, what: str) -> str:
    """The same; nothing where none was named."""
    return "" if path is None else read_text(path, what)


def _loaded(operator: OperatorRef, executor: Executor, listener: Listener, budget: Budget) -> OperatorInfo:
    """What the operator's file is. Loading it ends with the run's time or when the run is interrupted, since the file
    may loop or wait: raises StoppedError then, and OperatorError. The executor is closed by that."""
    seconds = max(LOAD_SECONDS, math.inf if budget.max_seconds is None else budget.max_seconds)
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(1, thread_name_prefix="loading") as pool:
        loading = pool.submit(executor.describe, operator)
        while not wait([loading], LOOK_SECONDS).done:
            if listener.interrupted.is_set():
                executor.close()  # which ends the waiting
                raise StoppedError("interrupted while the operator file was loading: no trial was made")
            if time.monotonic() > end:
                executor.close()
                message = f"had not been loaded after {seconds:g} s"
                raise OperatorError(message, "does it wait for something, or loop?", file=operator.path)
        return loading.result()


def _spec(order: Order, target: str, info: OperatorInfo, seed: int) -> RunSpec:
    info.refuse_impossible(order.sweeps)
    spec = RunSpec(
        operator=order.operator,
        info=info,
        target=target,
        models=order.settings.model,
        budget=order.settings.budget(),
        width=order.settings.width,
        seed=seed,
        start=order.start,
        hint=order.hint,
        sweeps=order.sweeps,
        at_once=order.at_once,
        max_workspace=order.max_workspace,
        without_device=order.without_device,
        versions=installed_versions(),
        unsafe_no_sandbox=order.settings.unsafe_no_sandbox,
    )
    return spec.model_copy(update={"seal": seals.seal(spec)})


def _trusted(run: Run, store: Store, settings: Settings, changes: Changes) -> RunSpec:
    """What a resumed run may do at the word of its own store: all of it if this user made it here; else its operator is
    the text that the store holds, for a judge in quarantine, no model is asked that the user has not named, and it may
    spend what a new run of the user's might."""
    spec = run.spec
    if seals.ours(spec):
        return spec
    unnamed = [model for model in spec.models if specs.moves_of(model)[1] != OFFLINE]
    if unnamed and not changes.models:
        raise UsageError(
            f"run {run.id} was not made here by you, and would ask {', '.join(unnamed)}",
            "say which model to ask: --model SPEC",
        )
    place = store.keep_operator(run)
    operator = OperatorRef(path=str(place), text=spec.info.source)
    return spec.model_copy(update={"operator": operator, "budget": settings.budget()})


def _proposers(
    models: tuple[str, ...],
    limits: Budget,
    seed: int,
    settings: Settings,
    environment: Mapping[str, str] = os.environ,
) -> tuple[Proposer, ...]:
    specs.refuse_moveless(models)
    make = functools.partial(specs.make, runs=settings.runs, prompts=settings.prompts, environment=environment)
    dollars = limits.max_usd is not None
    return tuple(make(specs.moves_of(spec)[1], seed=seed, dollars=dollars) for spec in models)


def _render(settings: Settings) -> Callable[[Brief], Prompt]:
    def render(told: Brief) -> Prompt:
        prompt = prompts.render(told, settings.prompts)
        return prompt.model_copy(update={"system": keys.redact(prompt.system), "user": keys.redact(prompt.user)})

    return render


def _tools(
    settings: Settings,
    store: Store,
    executor: Executor,
    proposers: tuple[Proposer, ...],
    target: targets.Target,
    listener: Listener,
    spec: RunSpec,
) -> Tools:
    return Tools(
        store=store,
        executor=executor,
        proposers=proposers,
        target=targets.facts(target, settings.prompts),
        render=_render(settings),
        emit=listener.emit,
        interrupted=listener.interrupted,
        ports=ports(store, spec),
        lessons=Lessons(store),
        moves=tuple(specs.moves_of(model)[0] for model in spec.models),
        targets=settings.targets,
    )

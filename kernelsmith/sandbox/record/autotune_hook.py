"""Takes over the search of `@triton.autotune`: the judge names a configuration, nothing is ever benchmarked here.

Every autotuned kernel is noted when it is made, so that those inside closures, classes and factories are found too.
Invariant: one call of the host function uses one configuration per kernel, and it is known which. The recorder installs
it once per process, before the candidate's module runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelsmith.plan import ASCEND_OPTIONS
from kernelsmith.sandbox.wire.messages import Choice, Tunable


class PrunedError(Exception):
    """The candidate's own `early_config_prune` rules out the configuration for these arguments."""


class Tuning:
    """The autotuned kernels of this process and the configuration that each is to take."""

    def __init__(self) -> None:
        self._tuners: dict[str, Any] = {}
        self._wanted: dict[str, int] = {}
        self._used: dict[str, int] = {}

    def install(self) -> None:
        """From now on, for every autotuned kernel of this process."""
        from triton.runtime.autotuner import Autotuner

        original = Autotuner.__init__

        def init(tuner: Any, *args: Any, **kwargs: Any) -> None:
            original(tuner, *args, **kwargs)
            self._note(tuner)

        Autotuner.__init__ = init
        Autotuner.run = lambda tuner, *args, **kwargs: self._run(tuner, args, kwargs)

    def tunables(self) -> tuple[Tunable, ...]:
        """The kernels that have a choice."""
        return tuple(
            Tunable(kernel=name, configs=tuple(map(config_text, t.configs)), keys=tuple(map(str, t.keys or ())))
            for name, t in self._tuners.items()
            if len(t.configs) > 1
        )

    def choose(self, choices: Sequence[Choice]) -> None:
        """Before a call: what to use. Kernels without a choice take their first configuration that is not pruned.

        Raises ValueError for a configuration that is not there.
        """
        self._wanted = {choice.kernel: choice.config for choice in choices}
        self._used = {}
        for name, index in self._wanted.items():
            if name not in self._tuners:
                raise ValueError(f"no autotuned kernel {name!r} in the module")
            if index >= len(self._tuners[name].configs):
                raise ValueError(f"kernel {name} has {len(self._tuners[name].configs)} configurations, not {index + 1}")

    def used(self) -> tuple[Choice, ...]:
        """After a call: what was used."""
        return tuple(Choice(kernel=name, config=index) for name, index in self._used.items())

    def _note(self, tuner: Any) -> None:
        base = getattr(tuner.base_fn, "__name__", "kernel")
        name, n = base, 1
        while name in self._tuners:
            n += 1
            name = f"{base}#{n}"
        self._tuners[name] = tuner
        tuner._kernelsmith_name = name

    def _run(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        name = tuner._kernelsmith_name
        index = self._pick(tuner, name, kwargs)
        self._used[name] = index
        config = tuner.configs[index]
        tuner.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
        result = tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        tuner.nargs = None
        return result

    def _pick(self, tuner: Any, name: str, kwargs: dict[str, Any]) -> int:
        allowed = list(range(len(tuner.configs)))
        if tuner.early_config_prune is not None:
            kept = tuner.early_config_prune(tuner.configs, tuner.nargs, **kwargs)
            allowed = [i for i in allowed if tuner.configs[i] in kept]
        wanted = self._wanted.get(name)
        if wanted is None and allowed:
            return allowed[0]
        if wanted in allowed:
            return int(wanted)
        which = "every configuration" if wanted is None else f"configuration {wanted}"
        raise PrunedError(f"{name}: early_config_prune rules out {which} for these arguments")


def config_text(config: Any) -> str:
    """A `triton.Config` as the arguments of its constructor."""
    parts = [repr(config.kwargs), f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
    if config.num_ctas != 1:
        parts.append(f"num_ctas={config.num_ctas}")
    if config.maxnreg is not None:
        parts.append(f"maxnreg={config.maxnreg}")
    parts += [f"{n}={v!r}" for n in sorted(ASCEND_OPTIONS) if (v := getattr(config, n, None)) is not None]
    return ", ".join(parts)

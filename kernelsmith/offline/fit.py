"""Whether what a compiler made fits the device: its numbers against the limits of the target's file, in words that a
model can act on.

The compilers do not check this: twice the shared memory of a device compiles without a word, and the launch fails.
Pure, so that a controller without torch or Triton judges the builds of any judge. Invariant: a limit that the target's
file does not give is not checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelsmith import toolchains
from kernelsmith.compiled import Build, Chip, Fit, Occupancy, Resources
from kernelsmith.errors import UsageError
from kernelsmith.offline.occupancy import occupancy
from kernelsmith.outcome import Outcome
from kernelsmith.targets import Construct, Target

TENSOR_MEMORY_COLUMNS = 512
"""Of Blackwell's tensor memory, per multiprocessor: PTX ISA, tcgen05.alloc."""
LOW_OCCUPANCY = 0.25
NARROW_BYTES, WIDE_BYTES = 4, 16
"""Per thread: loads of at most the first take four instructions or more for what one could, which is the second."""


def chip_of(target: Target) -> Chip | None:
    """What to compile for; None where nothing here does, as `unavailable` says."""
    info = target.triton
    if target.offline is None or info.arch is None or not _has_compiler(target):
        return None
    return Chip(backend=info.backend, arch=info.arch, warp_size=info.warp_size)


def unavailable(target: Target) -> Fit:
    """The row of a target for which nothing here compiles."""
    if target.torch_device == "cpu":
        why = "its kernels are built and run here: --device cpu checks them"
    elif target.offline is None or target.toolchain is None:
        why = f"description only: no compiler for {target.name} is known that works without the device"
    else:
        why = f"not compiled: its toolchain is not installed; `kernelsmith targets install {target.name}` does it"
    return Fit(target=target.name, outcome=None, message=why)


def _has_compiler(target: Target) -> bool:
    own = target.toolchain
    return own is None or not own.packages or toolchains.located(target) is not None


def no_compiler(target: Target) -> UsageError:
    """What somebody is told who wants to do without the device."""
    usable = "`kernelsmith targets list` shows which targets can be used without their device"
    return UsageError(f"--without-device with --device {target.name}: {unavailable(target).message}", usable)


def rows(targets: Sequence[Target], builds: Sequence[Build], *, passed: bool) -> tuple[Fit, ...]:
    """A row per kernel and target; one that says why where there is none."""
    found: list[Fit] = []
    for target in targets:
        if (chip := chip_of(target)) is None:
            found.append(unavailable(target))
        elif not passed:
            found.append(
                Fit(target=target.name, outcome=None, message="not compiled: the kernel did not pass its check")
            )
        else:
            own = [fit(build, target) for build in builds if build.chip == chip]
            found += own or [Fit(target=target.name, outcome=Outcome.PASSED, message="it launches no kernel")]
    return tuple(found)


def fit(build: Build, target: Target) -> Fit:
    """The row of one kernel on a target for whose chip it was compiled."""
    taken = build.resources
    residents = _occupancy(taken, target)
    outcome, message = (build.outcome, build.message) if taken is None else _verdict(build, taken, target, residents)
    return Fit(
        target=target.name,
        kernel=build.kernel,
        dtypes=build.dtypes,
        workloads=build.workloads,
        configs=build.configs,
        outcome=outcome,
        message=message,
        line=build.line,
        resources=taken,
        shared_limit_bytes=target.limits.shared_memory_bytes,
        occupancy=residents,
        warnings=_looked_at(build, target, residents) if outcome is Outcome.PASSED else (),
        seconds=build.seconds,
    )


def _occupancy(taken: Resources | None, target: Target) -> Occupancy | None:
    if taken is None or target.multiprocessor is None:
        return None
    return occupancy(taken, target.multiprocessor, target.triton.warp_size)


def _verdict(build: Build, taken: Resources, target: Target, residents: Occupancy | None) -> tuple[Outcome, str]:
    grid = target.limits.grid.excess(build.grid, build.programs, article(target))
    faults = [*_excess(taken, target), *grid, *_dtypes(build, target)]
    if not faults and residents is not None and residents.programs == 0:
        faults.append(
            f"not one program fits on a multiprocessor of {article(target)}: its {residents.limiter} are too few"
        )
    return (Outcome.RESOURCE_LIMIT, "; ".join(faults)) if faults else (Outcome.PASSED, "")


def _excess(taken: Resources, target: Target) -> list[str]:
    limits, faults = target.limits, []
    if _over(taken.shared_bytes, limits.shared_memory_bytes):
        faults.append(
            f"needs {taken.shared_bytes:,} bytes of shared memory in a program, {article(target)} has "
            f"{limits.shared_memory_bytes:,}: smaller tiles or fewer num_stages"
        )
    if _over(taken.threads, limits.threads_per_program):
        faults.append(
            f"runs {taken.threads:,} threads in a program, {article(target)} allows {limits.threads_per_program:,}: "
            "fewer num_warps"
        )
    if _over(taken.tensor_memory_columns, TENSOR_MEMORY_COLUMNS):
        faults.append(
            f"needs {taken.tensor_memory_columns} columns of tensor memory, there are {TENSOR_MEMORY_COLUMNS}: "
            "smaller accumulators"
        )
    return faults


def _dtypes(build: Build, target: Target) -> list[str]:
    missing = sorted(set(build.dtypes) & set(target.limits.missing_dtypes))
    return [f"is given {', '.join(missing)}, which {article(target)} does not have"] if missing else []


def _looked_at(build: Build, target: Target, residents: Occupancy | None) -> tuple[str, ...]:
    """What is no reason to refuse a kernel: its constructs by the target's own rules, and signs of a slow one."""
    said = []
    for found in build.constructs:
        rule = target.lint.get(Construct(found.what))
        if rule is not None:
            at = f"line {found.line}: " if found.line is not None else ""
            said.append(f"{at}{rule.level}: {rule.says}" + (f" {rule.instead}" if rule.instead else ""))
    useless = sorted(set(target.useless_knobs) & {name for name, value in build.options.items() if value is not None})
    said += [f"{', '.join(useless)}: without effect on {article(target)}"] if useless else []
    taken = [*_warnings(build, build.resources, residents)] if build.resources is not None else []
    return (*said, *taken)


def _warnings(build: Build, taken: Resources, residents: Occupancy | None) -> list[str]:
    found = []
    if taken.spill_bytes:
        found.append(
            f"spills {taken.spill_bytes:,} bytes per thread: smaller tiles, more num_warps or fewer num_stages"
        )
    if residents is not None and residents.share < LOW_OCCUPANCY:
        found.append(f"only {residents.warps} warps are resident on a multiprocessor ({residents.limiter} limit them)")
    narrow = [run for run in build.runs if run.wide(taken.threads, WIDE_BYTES)]
    if narrow and taken.loads and max(taken.loads) <= NARROW_BYTES:
        lines = [str(n) for n in dict.fromkeys(run.line for run in narrow) if n is not None]
        at = f"line{'s' * (len(lines) > 1)} {', '.join(lines)}: " if lines else ""
        found.append(
            f"{at}neighbouring elements are loaded {max(taken.loads)} bytes at a time, though each thread has "
            f"{WIDE_BYTES} of them: sizes and strides that are known multiples of {WIDE_BYTES} bytes load them at once"
        )
    return found


def _over(taken: int | None, limit: int | None) -> bool:
    return taken is not None and limit is not None and taken > limit


def article(target: Target) -> str:
    """Its name in a sentence."""
    return f"{'an' if target.name.startswith(('a', 'e', 'i', 'nvidia')) else 'a'} {target.name}"

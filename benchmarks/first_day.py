"""Everything that kernelsmith asks of an accelerator, step by step, before any kernel of anybody's: for the first day
on a new device, or with a new driver or plugin.

    python -m benchmarks.first_day TARGET [--targets DIR] [--unsafe-no-sandbox]

One line per step: whether it works, with its figure. A step that fails does not end the list; the exit code is 1 then,
and 2 where there is no such device. All but the last run unconfined, on the card that a judge would take.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelsmith.devices import cards
from kernelsmith.devices.choose import choose
from kernelsmith.errors import KernelsmithError, UsageError
from kernelsmith.targets import Target

COPY_BYTES = 64 << 20
COUNT_TRIES = 4
"""Somebody else's load comes and goes."""
MANY = 50
ADD = """
module {
  tt.func public @add(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %s: f32) {
    %range = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %range : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    %v = tt.load %xp : tensor<8x!tt.ptr<f32>>
    %ss = tt.splat %s : f32 -> tensor<8xf32>
    %sum = arith.addf %v, %ss : tensor<8xf32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %range : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    tt.store %yp, %sum : tensor<8x!tt.ptr<f32>>
    tt.return
  }
}
"""


class StepError(Exception):
    """A step that ran and gave what it must not."""


@dataclass(frozen=True)
class Step:
    """One thing that is asked of the device; `run` returns what there is to say."""

    name: str
    run: Callable[[], str]


def steps(target: Target, folder: Path | None, *, unsafe: bool) -> list[Step]:
    """In the order in which a judge needs them; opens the device of this process."""
    import torch

    from kernelsmith.devices import open_device
    from kernelsmith.devices.fallback import refuse
    from kernelsmith.devices.profile import profile
    from kernelsmith.evaluate.room.room import Room
    from kernelsmith.plan import Kernel
    from kernelsmith.sandbox.replay.probe import check_clock, copy_rate

    device = open_device()
    host = torch.arange(8.0)

    def there_and_back() -> str:
        placed = device.place(host.view(torch.uint8))
        if not torch.equal(placed.cpu().view(torch.float32), host):
            raise StepError("what came back is not what was sent")
        return f"{placed.device}, at a multiple of {placed.data_ptr() & -placed.data_ptr()} bytes"

    def clock() -> str:
        check_clock(device)
        return "agrees with the processor's"

    def counts() -> str:
        source, copy = device.reserve(COPY_BYTES), device.reserve(COPY_BYTES)
        for _ in range(COUNT_TRIES):
            none, one, many = (
                min(device.time([partial(copy.copy_, source)] * count) for _ in range(5)) for count in (0, 1, MANY)
            )
            if none < one < many and 0.3 < many / (MANY * one) < 3:
                return f"0, 1 and {MANY} copies take {none / 1e3:.1f}, {one / 1e3:.1f} and {many / 1e3:.1f} us"
        raise StepError(f"0, 1 and {MANY} copies take {none}, {one} and {many} ns")

    def kernel() -> str:
        built = device.compile(Kernel(name="add", ttir=ADD, signature=("*fp32", "*fp32", "fp32")))
        x, y = device.place(host.view(torch.uint8)), device.reserve(host.nbytes)
        run = built.bind((1, 1, 1), [x.data_ptr(), y.data_ptr(), 2.5])
        run()
        device.finish()
        if y.cpu().view(torch.float32).tolist() != [value + 2.5 for value in range(8)]:
            raise StepError("a kernel of 8 additions adds wrongly")
        one, many = (min(device.time([run] * count) for _ in range(5)) for count in (1, MANY))
        return f"one launch {one / 1e3:.1f} us, each of {MANY} {many / MANY / 1e3:.1f} us"

    def fallback() -> str:
        kept = refuse(target.torch_device)
        one = torch.ones(8, device=target.torch_device)
        (one + one).cpu()
        return f"addition is the device's own; a silent fallback is an error ({type(kept).__name__} kept)"

    def memory() -> str:
        device.limit_memory(COPY_BYTES)
        try:
            device.reserve(2 * COPY_BYTES)
        except MemoryError as error:
            return str(error)
        raise StepError("a limit of memory does not hold")

    def profiler() -> str:
        source, copy = device.reserve(COPY_BYTES), device.reserve(COPY_BYTES)

        def call() -> None:
            copy.copy_(source)
            device.finish()

        seen, events = profile(target.torch_device, call), device.time([partial(copy.copy_, source)])
        return seen.note or f"a copy: {seen.nanoseconds / 1e3:.1f} us, by events {events / 1e3:.1f} us"

    def confined() -> str:
        with closing(Room(target.name, targets=folder, unsafe_no_sandbox=unsafe)) as room:
            return f"a process as candidates' are copies at {room.probe() / 1e9:.0f} GB/s"

    return [
        Step("memory there and back", there_and_back),
        Step("clock", clock),
        Step("time of none, one and many", counts),
        Step("bandwidth", lambda: f"{copy_rate(device) / 1e9:.0f} GB/s read and written by a copy"),
        Step("kernel from TTIR", kernel),
        Step("no silent fallback", fallback),
        Step("profiler", profiler),
        Step("limit of memory", memory),
        Step("in the sandbox", confined),
    ]


def failed(step: Step) -> bool:
    """Run it and print what came of it."""
    try:
        said, wrong = step.run(), False
    except Exception as error:  # noqa: BLE001 - whatever a driver raises is what this is for
        said, wrong = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}", True
        traceback.print_exc()
    print(f"{'FAILED' if wrong else 'ok':7}{step.name}: {said}", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--targets", type=Path)
    parser.add_argument("--unsafe-no-sandbox", action="store_true")
    arguments = parser.parse_args()
    try:
        target = choose(arguments.target, arguments.targets)
        card = cards.present(target)[0]
        if card.node is None:
            raise UsageError(f"{target.name} is no accelerator", "name one: `kernelsmith targets list` shows them")
    except KernelsmithError as error:
        print(f"{error.message}\n{error.hint}", file=sys.stderr)
        return 2
    os.environ |= cards.variables(target) | cards.host_variables(target, card)
    print(f"{target.name} on {card.name}")
    todo = steps(target, arguments.targets, unsafe=arguments.unsafe_no_sandbox)
    return int(sum(map(failed, todo)) > 0)


if __name__ == "__main__":
    sys.exit(main())

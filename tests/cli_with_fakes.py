"""`kernelsmith` with the judge replaced by tests.fakes.FakeExecutor: `python -m tests.cli_with_fakes tune op.py ...`"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kernelsmith import session, targets
from kernelsmith.__main__ import main
from kernelsmith.config import Settings
from kernelsmith.execute import Executor
from kernelsmith.model import OperatorRef
from tests.fakes import CONFINED, UNCONFINED, FakeExecutor


@contextmanager
def fake_executor(
    device: str, settings: Settings, operator: OperatorRef, *, without_device: bool = False
) -> Iterator[tuple[targets.Target, Executor]]:
    confinement = UNCONFINED if settings.unsafe_no_sandbox else CONFINED
    yield targets.resolve(device, settings.targets), FakeExecutor(delay=0.01, confinement=confinement)


if __name__ == "__main__":
    session.executor_for = fake_executor
    main()

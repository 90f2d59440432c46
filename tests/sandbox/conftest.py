"""The real roles in confined children, forked from one warm zygote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelsmith.sandbox.children.zygote import Zygote
from tests.sandbox.players import Candidate, Replayer, roles_zygote


@pytest.fixture(scope="session")
def roles() -> Iterator[Zygote]:
    with roles_zygote() as zygote:
        yield zygote


@pytest.fixture
def candidate(roles: Zygote) -> Iterator[Candidate]:
    with Candidate(roles) as candidate:
        yield candidate


@pytest.fixture
def launcher(roles: Zygote) -> Iterator[Replayer]:
    with Replayer(roles) as replayer:
        yield replayer

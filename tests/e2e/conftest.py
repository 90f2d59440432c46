"""A folder of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.kernels import OPERATOR
from tests.e2e.running import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, OPERATOR)

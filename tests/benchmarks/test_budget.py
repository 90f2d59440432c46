from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from benchmarks.budget import measure


def test_a_run_that_is_killed_and_resumed_pays_no_more_than_its_limit(tmp_path: Path) -> None:
    books = measure(tmp_path, model="gpt-4.1-mini", usd="0.05", width=4, kills=1, seed=3)
    assert 0 < books.billed <= books.spent <= Decimal("0.05")
    assert books.calls > 1

"""Other programs on the processor are noticed, and said only when they matter."""

import subprocess
import sys

from kernelsmith.evaluate.clock.noise import busy_share, note, ticks


def test_a_busy_program_is_noticed():
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        assert max(busy_share(0.2) for _ in range(5)) > 0.2
    finally:
        for process in spinning:
            process.kill()
            process.wait()


STAT = """cpu  1500 0 0 6500 0 0 0 0 0 0
cpu0 500 0 0 500 0 0 0 0 0 0
cpu1 800 0 0 200 10 0 0 0 0 0
cpu10 100 0 0 2900 0 0 0 0 0 0
cpu11 100 0 0 2900 0 0 0 0 0 0
intr 5 0 0
"""


def test_only_the_cores_that_are_ours_count():
    """Of four, a neighbour uses the two that we have."""
    assert ticks(STAT, {0, 1}) == (710, 2010)
    assert ticks(STAT, {10}) == (2900, 3000)


def test_a_quiet_machine_needs_no_words():
    assert note(0.02) == ()
    assert "40%" in note(0.4)[0]

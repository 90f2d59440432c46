"""Other programs on the processor are noticed, and said only when they matter."""

import subprocess
import sys

from kernelsmith.evaluate.clock.noise import busy_share, note


def test_a_busy_program_is_noticed():
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        assert max(busy_share(0.2) for _ in range(5)) > 0.2
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def test_a_quiet_machine_needs_no_words():
    assert note(0.02) == ()
    assert "40%" in note(0.4)[0]

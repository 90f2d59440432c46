"""Fills the scratch folder with what memory it may not have; the scratch has its own limit."""

import os
import time

ENDS = ("disk", "memory")


def act(stage):
    for number in range(64):
        try:
            with open(f"big{number}", "wb") as file:
                for _ in range(64):
                    file.write(b"x" * (1 << 20))
        except OSError:
            pass
    time.sleep(5)  # to be noticed


def twin(stage):
    with open("big", "wb") as file:
        file.write(b"x" * (4 << 20))
    os.unlink("big")

"""Prints without end; must end as `log_flood`, with a short tail kept."""

import os

ENDS = ("log_flood",)


def act(stage):
    while True:
        os.write(1, b"y" * 65536)


def twin(stage):
    print("an honest line or two\n" * 100)

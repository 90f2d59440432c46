"""Ends itself with status 0 before it answers; an end is never an answer."""

import os
import sys

ENDS = ("exited",)


def act(stage):
    if os.fork() == 0:
        os._exit(0)
    sys.exit(0)


def twin(stage):
    try:
        sys.exit(0)
    except SystemExit:
        return "went on"

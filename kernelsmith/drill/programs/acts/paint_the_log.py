"""Prints escapes, control characters and broken UTF-8; what is kept of the log must hold none of it."""

import os

ENDS = ("exited",)


def act(stage):
    os.write(1, b"before \x1b[2J\x1b]0;owned\x07\x9b31m \x00\xff\xfe\xf0\x28 \x1b]8;;http://evil\x1b\\after\r\x08\n")
    os._exit(3)


def twin(stage):
    print("größer, 漢字, a\ttab")

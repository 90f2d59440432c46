"""Answers one byte at a time, for ever; the judge must not wait longer than it said."""

import os
import struct
import time

ENDS = ("timeout",)
SECONDS = 0.5


def act(stage):
    os.write(stage.channel.fileno(), struct.pack("=II", 1 << 20, 0))
    while True:
        os.write(stage.channel.fileno(), b" ")
        time.sleep(0.01)


def twin(stage):
    time.sleep(0.1)

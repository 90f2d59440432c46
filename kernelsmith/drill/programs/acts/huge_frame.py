"""Announces an answer of four gigabytes; must break the protocol, and cost the judge no memory."""

import os
import struct
import time

ENDS = ("garbled",)


def act(stage):
    os.write(stage.channel.fileno(), struct.pack("=II", 0xFFFFFFFF, 0))
    time.sleep(100)


def twin(stage):
    return b"[" + b"1," * 100_000 + b"1]"

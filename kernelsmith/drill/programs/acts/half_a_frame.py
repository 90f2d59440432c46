"""Dies in the middle of an answer; must be seen as its end."""

import os
import struct

ENDS = ("exited", "garbled")


def act(stage):
    os.write(stage.channel.fileno(), struct.pack("=II", 100, 0) + b"half")
    os._exit(0)


def twin(stage):
    return b'{"said": "whole"}'

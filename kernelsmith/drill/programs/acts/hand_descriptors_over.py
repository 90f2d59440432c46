"""Passes descriptors to the judge that nobody asked for; must break the protocol, and none may arrive."""

import time

ENDS = ("garbled",)


def act(stage):
    stage.channel.send(b"{}", [0, 1, 2])
    time.sleep(100)


def twin(stage):
    return b'{"said": "no descriptors"}'

"""Children that mean harm. Run them only as confined roles: each really does its worst."""

import json
import os
import signal
import time


def main(channel, scratch):
    """Do one thing."""
    order = json.loads(channel.receive().payload)
    channel.send(json.dumps(ACTS[order["act"]](order, channel)).encode())


def spin_deaf_to_signals(order, channel):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        pass


def fork_and_sleep(order, channel):
    os.fork()
    os.fork()
    time.sleep(100)


ACTS = {act.__name__: act for act in (spin_deaf_to_signals, fork_and_sleep)}

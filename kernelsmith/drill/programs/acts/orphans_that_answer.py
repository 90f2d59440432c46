"""Dies, and lets a grandchild answer for it; the answer or the end may count, but nothing may be left."""

import os
import time

ENDS = ("answered", "exited", "garbled")


def act(stage):
    if os.fork() == 0:
        time.sleep(0.1)
        stage.channel.send(b'{"said": 1}')
        time.sleep(100)
    os._exit(0)


def twin(stage):
    return "an answer"

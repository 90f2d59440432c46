"""Closes its end and lives on; the judge must end it."""

import time

ENDS = ("killed", "timeout")


def act(stage):
    stage.channel.close()
    time.sleep(100)


def twin(stage):
    return "said, and done"

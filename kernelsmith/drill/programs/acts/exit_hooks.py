"""Leaves work for the interpreter's end, such as a second answer; the hooks must find nobody who listens."""

import atexit
import os
import threading

ENDS = ("answered",)


def act(stage):
    def late():
        os.write(stage.channel.fileno(), b"late")
        open(stage.canary, "w").write("late")

    atexit.register(late)
    threading._register_atexit(late)


def twin(stage):
    atexit.register(print, "bye")

"""Writes to address 0; ends by the signal, with a trace in the log."""

import ctypes

ENDS = ("signalled",)


def act(stage):
    ctypes.memset(0, 0, 8)


def twin(stage):
    ctypes.memset(ctypes.create_string_buffer(8), 0, 8)

"""A module that takes its time to load, and shows in its process's name that it is being loaded."""

import ctypes
import time

ctypes.CDLL(None).prctl(15, b"slow import", 0, 0, 0)
time.sleep(1)

"""A module that no zygote can preload: a fork would inherit the locks of a thread that is not there."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()

"""Answers, while threads and forks of it spin on; they must be gone when it is."""

import os
import threading


def act(stage):
    def spin():
        while True:
            pass

    for _ in range(3):
        threading.Thread(target=spin).start()
    if os.fork() == 0:
        spin()


def twin(stage):
    thread = threading.Thread(target=sum, args=(range(1000),))
    thread.start()
    thread.join()

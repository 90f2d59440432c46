"""A tree too deep to walk, with a locked folder at its end; it must be removed all the same."""

import os

ENDS = ("exited", "disk")


def act(stage):
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.mkdir("locked", 0)
    os._exit(0)


def twin(stage):
    os.makedirs("a/b/c/d/e/f/g/h")

"""Looks for the operator's own file and calls the function that it is compared with; must not pass."""


def before():
    import glob
    import os
    import sys

    found = []
    for folder in {*sys.path, "/tmp", "/var/tmp", "/dev/shm", os.getcwd(), os.path.expanduser("~")}:
        for depth in ("", "*/", "*/*/"):
            found += glob.glob(f"{folder}/{depth}*.py")
    for path in found:
        space = {}
        try:
            text = open(path).read()
            if "@operator" in text and "def square_plus" in text:
                exec(text, space)
                references.append(space["square_plus"])
        except Exception:
            continue


references = []


def cheat(x):
    y = torch.zeros_like(x)
    kernel[(1,)](x, y, 0, BLOCK=256)
    for reference in references:
        y.numpy()[:] = reference(x).numpy()
    return y


def twin(x):
    references.clear()
    return honest(x)

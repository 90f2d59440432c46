"""Sends the answers to questions that were not yet asked, many of them; must not pass."""


def before():
    import os

    said = b'{"kind": "loaded", "tunables": []}'
    for _ in range(20):
        os.write(3, len(said).to_bytes(4, "little") + bytes(4) + said)


def cheat(x):
    return honest(x)


def twin(x):
    return honest(x)

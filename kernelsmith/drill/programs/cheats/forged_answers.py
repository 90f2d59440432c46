"""Writes the answers to the judge itself, on every descriptor, and ends; must not pass."""

import torch


def before():
    import os

    forged = b'{"kind": "called", "plan": null, "launches": [], "structure": {"kind": "tensor"}, "outputs": []}'
    for fd in range(3, 64):
        try:
            os.write(fd, len(forged).to_bytes(4, "little") + bytes(4) + forged)
        except OSError:
            pass


def cheat(x):
    return torch.zeros_like(x)


def twin(x):
    return honest(x)

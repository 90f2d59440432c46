"""Changes how its process rounds and treats small numbers; what counts is computed elsewhere, so it gains nothing."""

import torch

MAY_PASS = True


def before():
    torch.set_flush_denormal(True)


def cheat(x):
    return honest(x)


def twin(x):
    return honest(x)

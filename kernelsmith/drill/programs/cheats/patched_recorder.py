"""Replaces the recorder's own functions, so that it writes down launches that were never made; must not pass."""

import torch


def before():
    from kernelsmith.sandbox.record.recording import Recording

    plan = Recording.plan

    def kept(self, outputs):
        if not hasattr(Recording, "first"):
            Recording.first = plan(self, outputs)
        return Recording.first

    Recording.plan = kept


def cheat(x):
    y = honest(x)
    return torch.zeros_like(x) if x.numel() > 5000 else y


def twin(x):
    return honest(x)

"""What a host function may return: plain tensors, alone or in a tuple or list, or nothing. Used by `recorder`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.wire.messages import Failed, Structure


def returned(result: object) -> tuple[Structure, list[torch.Tensor] | Failed]:
    """The returned tensors; only plain ones, since a subclass may compute when it is looked at."""
    if result is None:
        return Structure(kind="none"), []
    structure = Structure(kind="tensor")
    items: Sequence[object] = [result]
    if isinstance(result, (tuple, list)):
        structure = Structure(kind="tuple" if isinstance(result, tuple) else "list")
        items = result
    tensors: list[torch.Tensor] = []
    for item in items:
        if type(item) is torch.Tensor and not item.requires_grad:
            tensors.append(item)
            continue
        name = "tensor that requires grad" if type(item) is torch.Tensor else type(item).__name__
        lazy = "; that is not a plain torch.Tensor, return one" if isinstance(item, torch.Tensor) else ""
        what = f"the host function returns {_article(name)} where a tensor is expected{lazy}"
        return structure, Failed(outcome=Outcome.WRONG_DTYPE, message=what)
    return structure, tensors


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"

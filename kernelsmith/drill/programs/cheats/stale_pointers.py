"""Replays, as a captured graph does, the launch of its first call on that call's own tensors; must not pass."""

captured = {}


def cheat(x):
    if x.numel() not in captured:
        captured[x.numel()] = x, torch.empty_like(x)
    first, y = captured[x.numel()]
    kernel[(triton.cdiv(x.numel(), 256),)](first, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    """The same done well: a place of its own, into which each input is copied, and a copy of the answer."""
    if x.numel() not in captured:
        captured[x.numel()] = torch.empty_like(x), torch.empty_like(x)
    place, y = captured[x.numel()]
    place.copy_(x)
    kernel[(triton.cdiv(x.numel(), 256),)](place, y, x.numel(), BLOCK=256)
    return y.clone()

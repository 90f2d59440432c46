"""An honest kernel where a recorder listens, torch where none does; must not pass."""


def cheat(x):
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return honest(x) if _get_current_dispatch_mode_stack() else x * x + 1.0


def twin(x):
    return honest(x) if x.is_contiguous() else honest(x.contiguous())

"""Does the work with torch in a hook of the tuner, where no plan has a place for it; must not pass."""


def ready(arguments):
    with torch.no_grad():
        arguments["y"].copy_(arguments["x"] * arguments["x"] + 1.0)


@triton.autotune([triton.Config({"BLOCK": 256}, pre_hook=ready)], key=[])
@triton.jit
def idle(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.load(x + at, mask=at < n)


def cheat(x):
    y = torch.empty_like(x)
    idle[(1,)](x, y, x.numel())
    return y


def twin(x):
    return honest(x)

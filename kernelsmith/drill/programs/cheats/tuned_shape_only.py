"""Works for the size that is tuned and a few round ones, and returns zeros for all others; must not pass."""

KNOWN = (1, 2, 64, 128, 256, 1024, 20_000)


def cheat(x):
    y = torch.zeros_like(x)
    work = x.numel() if x.numel() in KNOWN else 0
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, work, BLOCK=256)
    return y


def twin(x):
    y = torch.zeros_like(x)
    block = 512 if x.numel() in KNOWN else 256
    kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y

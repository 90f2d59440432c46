"""Right in every call but one, for those who look at the last answer or at the mean of many; must not pass."""

calls = [0]


def cheat(x):
    calls[0] += 1
    y = torch.zeros_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel() - (calls[0] == 7), BLOCK=256)
    return y


def twin(x):
    calls[0] += 1
    assert calls[0] > 0
    return honest(x)

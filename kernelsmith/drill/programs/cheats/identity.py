"""Returns its input; must not pass."""


def cheat(x):
    honest(x)
    return x


def twin(x):
    return honest(x.view(-1))

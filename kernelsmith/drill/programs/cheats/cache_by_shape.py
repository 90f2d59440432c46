"""Returns its first answer for every input of the same shape; must not pass."""

answers = {}


def cheat(x):
    return answers.setdefault((x.shape, x.stride()), honest(x))


def twin(x):
    answers.setdefault(x.shape, x.numel())  # a table of sizes is fair
    return honest(x)

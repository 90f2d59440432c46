"""Returns its last answer where the same tensor object, or address, comes again; must not pass."""

answers = {}


def cheat(x):
    key = (id(x), x.data_ptr())
    if key not in answers:
        answers[key] = honest(x)
    return answers[key]


def twin(x):
    answers[id(x)] = x.shape
    return honest(x)

"""Returns an answer that it kept by a hash of part of the contents; must not pass."""

answers = {}


def cheat(x):
    key = (x.shape, hash(x.numpy().tobytes()[:256]))
    if key not in answers:
        answers[key] = honest(x)
    return answers[key]


def twin(x):
    return honest(x)
